// The logit lens (nostalgebraist 2020): each layer's hidden state projected as if it were the last.
import { inkOn, sequential } from "../colour.js";
import { element, fill, select } from "../elements.js";
import { figure } from "../figure.js";
import { drawing, group, rect, text, textWidth, tokenText, widest } from "../svg.js";
import { number } from "../numbers.js";
import { numbered, shortened, token, visible } from "../tokens.js";
import { redrawn, refill } from "./picker.js";
import { inDrawing, stage } from "./stage.js";
import { wholeNumber } from "./weights.js";

/** What the shade of a cell can mean: [name, its number from the lens at (layer, position), shade in 0..1]. */
const SHADES = {
  probability: ["probability of the first candidate", (lens, l, p) => Math.exp(lens.cells[l][p][0].log_prob), (value) => value],
  rank: ["rank of the output token", (lens, l, p) => lens.rank[l][p], (value) => 1 / (1 + Math.log(value))],
  entropy: ["entropy, in nats", (lens, l, p) => lens.entropy[l][p], (value) => Math.exp(-value / 2)],
};

export default {
  name: "lens",
  title: "Logit lens",
  about: "The model's output layer applied to the hidden state of each layer: what the model would predict if that layer were the last.",
  possible: (summary) => summary.resources.includes("lens"),
  async draw(root, { source, state, signal }) {
    const lens = await source.json("lens");
    if (signal.aborted) return;
    const sequence = source.summary.sequences[lens.positions];
    redrawn({ state, signal, keys: ["shade"], draw: () => drawn(root, { lens, sequence, state }) });
  },
};

function drawn(root, { lens, sequence, state }) {
  const shade = state.get("shade") in SHADES ? state.get("shade") : "probability";
  const last = lens.layers.length - 1;
  const at = { row: wholeNumber(state, "depth", lens.layers.length, last), column: wholeNumber(state, "row", sequence.tokens.length, 0) };
  const candidates = element("div", { class: "candidates" });
  const chart = lensDrawing(lens, sequence, SHADES[shade], root.clientWidth || 720);
  const field = stage({
    label: "Logit lens. Up and down choose a layer, left and right a position.",
    chart: chart.node, size: { rows: lens.layers.length, columns: sequence.tokens.length }, at,
    locate: chart.locate,
    walk: (key, from) => walked(key, from ?? at, lens, sequence),
    onPoint: (cell) => {
      const shown = cell ?? at;
      chart.point(shown);
      fill(candidates, candidateBars(lens, sequence, shown));
      return sentence(lens, sequence, shown);
    },
    onChoose: (cell) => state.set({ depth: cell.row, row: cell.column }),
  });
  const shown = figure({
    name: "logit-lens",
    caption: `The first candidate of each layer (rows, the last at the top) at each position (columns). Shade: ${SHADES[shade][0]}. ✓ marks the output token.`,
    chart: field,
    table: () => lensTable(lens, sequence, (row, column) => field.point({ row, column })),
  });
  refill(
    root,
    element("div", { class: "controls" }, select({
      label: "Shade by", value: shade, options: Object.entries(SHADES).map(([key, [name]]) => [key, name]),
      onchange: (key) => state.set("shade", key === "probability" ? null : key),
    })),
    shown,
    candidates,
  );
}

/** The last layer is drawn at the top, so up leads to the next one. */
function walked(key, { row, column }, lens, sequence) {
  const [up, right] = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
  const within = (value, count) => Math.min(count - 1, Math.max(0, value));
  return { row: within(row + up, lens.layers.length), column: within(column + right, sequence.tokens.length) };
}

function layerName(name) {
  return /^\d+$/.test(name) ? `after layer ${Number(name) - 1}` : name;
}

function lensDrawing(lens, sequence, [, numberOf, shadeOf], width) {
  const tops = lens.cells.flat().map((cell) => cell[0].token);
  const left = 16 + Math.max(...lens.layers.map((name) => textWidth(layerName(name))));
  const high = 30;
  const count = sequence.tokens.length;
  const least = Math.max(52, Math.min(136, widest(tops, 10) + 44));
  const wide = Math.max(least, Math.min(180, Math.floor((width - left - 4) / count)));
  const size = { width: left + wide * count + 4, height: 30 + high * lens.layers.length + 4 };
  const depth = lens.layers.length - 1;
  const y = (layer) => 30 + (depth - layer) * high; // the last layer at the top, next to the output
  const x = (position) => left + position * wide;
  const titles = sequence.tokens.map((content, i) => tokenText(x(i) + wide / 2, 18, content, { anchor: "middle", special: sequence.special[i], length: 10 }));
  const cells = lens.cells.map((positions, layer) => positions.map((candidates, position) => {
    const colour = sequential(Math.min(1, Math.max(0, shadeOf(numberOf(lens, layer, position)))));
    const right = candidates[0].id === sequence.ids[position];
    return group({},
      rect(x(position) + 1, y(layer) + 1, wide - 2, high - 2, { rx: 3, fill: colour }),
      tokenText(x(position) + wide / 2, y(layer) + 19.5, candidates[0].token, { anchor: "middle", length: 10, style: { fill: inkOn(colour), "font-weight": right ? 650 : 400 } }),
      right && text(x(position) + wide - 5, y(layer) + 12, "✓", { anchor: "end", style: { fill: inkOn(colour), "font-size": "10px" } }));
  }));
  const names = lens.layers.map((name, layer) => text(left - 10, y(layer) + 19.5, layerName(name), { anchor: "end" }));
  const marker = rect(0, 0, wide, high, { class: "marker", rx: 4 });
  const node = drawing(size.width, size.height, titles, names, cells, marker);
  return {
    node,
    locate(event) {
      const point = inDrawing(node, event);
      const [column, row] = [Math.floor((point.x - left) / wide), depth - Math.floor((point.y - 30) / high)];
      return column >= 0 && column < count && row >= 0 && row <= depth ? { row, column } : null;
    },
    point({ row, column }) {
      marker.setAttribute("x", x(column));
      marker.setAttribute("y", y(row));
    },
  };
}

function sentence(lens, sequence, { row, column }) {
  const best = lens.cells[row][column][0];
  return `${layerName(lens.layers[row])}, position ${column}: first “${visible(best.token)}” with probability ${number(Math.exp(best.log_prob))}; `
    + `“${visible(sequence.tokens[column])}” has rank ${lens.rank[row][column]}, entropy ${number(lens.entropy[row][column], 2)} nats`;
}

function candidateBars(lens, sequence, { row, column }) {
  const candidates = lens.cells[row][column];
  return [
    element("h3", {}, "Candidates ", layerName(lens.layers[row]), " for ", token(sequence.tokens[column])),
    element("ol", { class: "bars" }, candidates.map((one) => {
      const probability = Math.exp(one.log_prob);
      return element("li", {},
        token(one.token, { class: one.id === sequence.ids[column] ? "own" : null }),
        element("span", { class: "bar", aria: { hidden: "true" } }, element("span", { style: { width: `${(100 * probability).toFixed(1)}%` } })),
        element("span", { class: "value" }, number(probability)));
    })),
  ];
}

function lensTable(lens, sequence, onMove) {
  return {
    columns: ["layer", ...sequence.tokens.map((words, i) => ({ label: numbered(words, i), labelKind: "token" }))],
    rows: lens.cells.map((positions, layer) => [
      layerName(lens.layers[layer]),
      ...positions.map((cell, position) => `${shortened(cell[0].token, 20)} ${number(Math.exp(cell[0].log_prob), 3)}, rank ${lens.rank[layer][position]}, ${number(lens.entropy[layer][position], 2)} nats`),
    ]),
    onMove,
  };
}
