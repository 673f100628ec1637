// Attention rollout (Abnar and Zuidema 2020): the product of all layers' attention matrices, with residual connections.
import { element, select } from "../elements.js";
import { figure } from "../figure.js";
import { number } from "../numbers.js";
import { visible } from "../tokens.js";
import { heatmap, legend } from "./heatmap.js";
import { chosenCell, matrixTable } from "./matrix.js";
import { redrawn, refill } from "./picker.js";
import { matrixOf } from "./weights.js";

const SEQUENCES = { encoder: ["source", "text"], decoder: ["read"] };

export default {
  name: "rollout",
  title: "Rollout",
  about: "The product of all self-attention layers, with the residual path as half of each: a rough estimate of which input positions an output position depends on.",
  possible: (summary) => summary.resources.some((path) => path.startsWith("rollout/")),
  async draw(root, { source, state, signal }) {
    await redrawn({ state, signal, keys: ["rolled"], draw: (own) => drawn(root, { source, state, signal: own }) });
  },
};

async function drawn(root, { source, state, signal }) {
  const parts = ["encoder", "decoder"].filter((part) => source.has(`rollout/${part}`));
  const part = parts.includes(state.get("rolled")) ? state.get("rolled") : parts[0];
  const weights = matrixOf(await source.array(`rollout/${part}`));
  if (signal.aborted) return;
  const name = SEQUENCES[part].find((sequence) => sequence in source.summary.sequences);
  const { tokens, special } = source.summary.sequences[name];
  const axis = (title) => ({ title, tokens, special, after: null });
  const axes = { rows: axis("at the end"), columns: axis(name) };
  const most = weights.values.reduce((largest, value) => Math.max(largest, value), 0);
  const map = heatmap({
    matrix: weights.largestAsOne(), ...axes, label: `Rollout of the ${part}`, at: chosenCell(state, weights),
    width: (root.clientWidth || 720) - 4,
    say: ({ row, column }) => `“${visible(tokens[row])}” at the end comes from “${visible(tokens[column])}” with ${number(weights.at(row, column))}`,
    onChoose: (cell) => state.set(cell),
  });
  refill(
    root,
    parts.length > 1 && element("div", { class: "controls" }, select({
      label: "Part", value: part, options: parts, onchange: (value) => state.set({ rolled: value, row: null, column: null }),
    })),
    figure({
      name: `rollout-${part}`,
      caption: `Rollout of the ${part}: each row is a position after the last layer, its cells are its shares from the positions of ${name}. Rows sum to 1.`,
      chart: element("div", {}, map.tools, map, legend({ most: number(most, 2) })),
      table: () => matrixTable({ weights, axes, onMove: (row, column) => map.point({ row, column }) }),
    }),
  );
}
