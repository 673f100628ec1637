// One head's attention as a matrix, linked with the two lists of tokens.
import { button, checkbox, element, slider } from "../elements.js";
import { figure } from "../figure.js";
import { number } from "../numbers.js";
import { numbered, visible } from "../tokens.js";
import { heatmap, legend, rowWords, shades } from "./heatmap.js";
import { maskFigure } from "./mask.js";
import { choiceTitle, picker, redrawn, refill } from "./picker.js";
import { tokenLine } from "./stage.js";
import { Matrix, axisOf, chosenAttention, chosenHead, headOf, wholeNumber } from "./weights.js";

const BESIDE = 300; // pixels that the lists of tokens need next to the map

export default {
  name: "matrix",
  title: "Matrix",
  about: "Each row is a query token. Its cells are its attention weights on the columns and sum to 1.",
  possible: (summary) => summary.attentions.length > 0,
  async draw(root, { source, state, signal }) {
    await redrawn({ state, signal, keys: ["part", "layer", "head"], draw: (own) => drawn(root, { source, state, signal: own }) });
  },
};

async function drawn(root, { source, state, signal }) {
  const { summary } = source;
  const attention = chosenAttention(summary, state);
  const head = chosenHead(attention, state);
  const weights = headOf(await source.array(`attention/${attention.name}`), head);
  const axes = { rows: axisOf(summary, attention, "rows"), columns: axisOf(summary, attention, "columns") };
  const mask = await maskFigure({ source, attention, head, axes, width: (root.clientWidth || 720) - 4 });
  if (signal.aborted) return;
  const linked = tokenLines(axes, (cell) => map.choose(cell));
  const map = linkedMap({ root, source, state, attention, head, weights, axes, linked, signal });
  const adjust = adjustments(state, weights, (shown) => map.show(shown));
  refill(
    root,
    picker({ summary, state, more: adjust.controls }),
    element("div", { class: weights.columns <= 12 || map.wide + BESIDE < root.clientWidth ? "side-by-side narrow" : "side-by-side" }, map.figure, linked.node),
    ...(mask ? [mask] : []),
  );
}

function linkedMap({ root, source, state, attention, head, weights, axes, linked, signal }) {
  const title = choiceTitle(attention, head);
  const drills = source.has(`query/${attention.name}`);
  const at = chosenCell(state, weights);
  const open = (cell) => state.set({ ...cell, part: attention.part, layer: attention.layer, head, view: "arithmetic" });
  const map = heatmap({
    matrix: adjusted(weights, state), ...axes, at,
    label: `Attention matrix of ${title}`,
    width: (root.clientWidth || 720) - 4,
    say: ({ row, column }) =>
      `${rowWords(axes.rows, row)} attends to “${visible(axes.columns.tokens[column])}” with ${number(weights.at(row, column))}`,
    onPoint: (cell) => linked.shade(cell, weights),
    onChoose: (cell) => state.set(cell),
    onOpen: drills && open,
  });
  const shown = figure({
    name: `attention-${attention.part}-${attention.layer}-${head}`,
    caption: `Attention (${title}): rows are queries (${axes.rows.title}), columns are keys (${axes.columns.title}).`,
    chart: element("div", {}, map.tools, map, legend({})),
    table: () => matrixTable({ weights, axes, selected: chosenCell(state, weights), onMove: (row, column) => map.point({ row, column }) }),
  });
  state.listen((event) => {
    if (event.detail.keys.some((key) => key === "row" || key === "column")) map.point(chosenCell(state, weights));
  }, { signal });
  if (drills) {
    shown.append(element("div", { class: "opens" },
      button("Arithmetic of the cell", () => open(chosenCell(state, weights) ?? { row: 0, column: 0 })),
      element("span", { class: "hint" }, "or Enter, or a double click on it")));
  }
  const wide = Number(map.querySelector(".chart").getAttribute("width"));
  return { figure: shown, wide, show: (next) => map.show(next), choose: (cell) => state.set(cell) };
}

/** The cell that the state names, or null. */
export function chosenCell(state, { rows, columns }) {
  const row = wholeNumber(state, "row", rows);
  const column = wholeNumber(state, "column", columns);
  return row === null && column === null ? null : { row: row ?? 0, column: column ?? 0 };
}

/** A matrix as the table behind a figure. */
export function matrixTable({ weights, axes, selected = null, onMove = null, digits = 4 }) {
  return {
    columns: [axes.rows.title, ...axes.columns.tokens.map((text, i) => ({ label: numbered(text, i), labelKind: "token", digits }))],
    rows: Array.from({ length: weights.rows }, (_, row) => [numbered(axes.rows.tokens[row], row), ...weights.row(row)]),
    selected: selected ? [selected.row, selected.column] : [0, 0],
    onMove,
  };
}

/** The two token lists, each shaded by the weights of the chosen token of the other list. */
function tokenLines(axes, choose) {
  let cell = null;
  const rows = tokenLine({ axis: axes.rows, label: `Looking: ${axes.rows.title}`, onChoose: (row) => choose({ row, column: cell?.column ?? 0 }) });
  const columns = tokenLine({ axis: axes.columns, label: `Attended to: ${axes.columns.title}`, onChoose: (column) => choose({ row: cell?.row ?? 0, column }) });
  const { colour, ink } = shades();
  return {
    node: element("div", { class: "token-lines" }, rows, columns),
    shade(next, weights) {
      cell = next;
      rows.mark(cell?.row ?? null);
      columns.mark(cell?.column ?? null);
      rows.shade(cell && weights.column(cell.column), colour, ink);
      columns.shade(cell && weights.row(cell.row), colour, ink);
    },
  };
}

function adjustments(state, weights, show) {
  const again = () => show(adjusted(weights, state));
  return {
    controls: [
      checkbox({ label: "Shade each row by its largest weight", checked: state.get("rowscale") === "1", onchange: (on) => (state.set("rowscale", on ? 1 : null), again()) }),
      slider({
        label: "Hide weights below", min: 0, max: 0.5, step: 0.01, value: state.number("least", 0), format: (value) => value.toFixed(2),
        oninput: (value) => (state.set("least", value || null), again()),
      }),
    ],
  };
}

function adjusted(weights, state) {
  const least = state.number("least", 0);
  const kept = least > 0 ? new Matrix(weights.rows, weights.columns, weights.values.map((value) => (value < least ? 0 : value))) : weights;
  return state.get("rowscale") === "1" ? kept.rowsScaled() : kept;
}
