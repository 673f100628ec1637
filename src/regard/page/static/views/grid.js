// All heads as thumbnails, one row a layer; or ranked by a statistic.
import { pixels } from "../canvas.js";
import { sequentialTable, theme } from "../colour.js";
import { element, fill, select } from "../elements.js";
import { figure } from "../figure.js";
import { number } from "../numbers.js";
import { numbered, visible } from "../tokens.js";
import { gridDrawing } from "./grid_drawing.js";
import { redrawn, refill } from "./picker.js";
import { PARTS, axisOf, headOf, wholeNumber } from "./weights.js";

/** Statistics to rank heads by: key -> [name, meaning, true if the largest comes first]. */
export const STATISTICS = {
  previous: ["attends to the previous token", "mean weight on the previous token", true],
  next: ["attends to the next token", "mean weight on the next token", true],
  same: ["attends to itself", "mean weight on the token itself", true],
  duplicate: ["attends to earlier copies of the token", "mean weight on earlier copies of the token", true],
  induction: ["attends to the token after an earlier copy (induction)", "mean weight on the token after an earlier copy", true],
  first: ["attends to the first token", "mean weight on the first token", true],
  end: ["attends to the end token", "mean weight on end tokens", true],
  aligning: ["aligns", "mean weight on the aligned source token", true],
  copying: ["attends to the source token it copies", "mean weight on source tokens equal to the output token", true],
  entropy: ["is sharp (low entropy)", "mean entropy of its rows, in nats", false],
  distance: ["attends far", "mean distance |row − column|, in tokens", true],
};
const CELL = "cell"; // ranked by the weight of one chosen cell

export default {
  name: "grid",
  title: "All heads",
  about: "Every head of every layer as a small map. Sort them by pattern, or by the weight between two words, to find a head.",
  possible: (summary) => summary.attentions.length > 0,
  async draw(root, { source, state, signal }) {
    const facts = source.has("heads") ? await source.json("heads") : [];
    if (signal.aborted) return;
    const keys = ["part", "rank", "row", "column"];
    await redrawn({ state, signal, keys, draw: (own) => drawn({ root, source, state, signal: own, facts }) });
  },
};

async function drawn(context) {
  const { root, source, state, facts } = context;
  const parts = PARTS.filter(({ part }) => source.summary.attentions.some((one) => one.part === part));
  const part = parts.find((one) => one.part === state.get("part"))?.part ?? defaultPart(source.summary);
  const attentions = source.summary.attentions.filter((one) => one.part === part);
  const rank = chosenRank(state, facts);
  const axes = { rows: axisOf(source.summary, attentions[0], "rows"), columns: axisOf(source.summary, attentions[0], "columns") };
  const cell = {
    row: wholeNumber(state, "row", axes.rows.tokens.length, 0),
    column: wholeNumber(state, "column", axes.columns.tokens.length, 0),
  };
  const heads = await everyHead(source, attentions, facts, rank === CELL ? cell : null);
  if (context.signal.aborted) return;
  const ordered = rank ? ranked(heads, rank) : heads;
  refill(
    root,
    element("div", { class: "controls" },
      parts.length > 1 && select({
        label: "Attention", value: part, options: parts.map(({ part: key, title }) => [key, title]),
        onchange: (value) => state.set({ part: value, layer: null, row: null, column: null }),
      }),
      rankPicker(state, facts, rank, part),
      rank === CELL && cellPicker(state, axes, cell)),
    gridFigure({ context, part, rank, ordered, axes, cell }),
  );
}

function defaultPart(summary) {
  return summary.alignment ? "cross" : summary.attentions[0].part;
}

function chosenRank(state, facts) {
  const asked = state.get("rank");
  if (asked === CELL) return CELL;
  return asked in STATISTICS && facts.some((fact) => fact[asked] !== null) ? asked : null;
}

/** Every head of these attentions: {attention, head, facts, weight} where `weight` is that of `cell`. */
async function everyHead(source, attentions, facts, cell) {
  const found = [];
  for (const attention of attentions) {
    const array = cell ? await source.array(`attention/${attention.name}`) : null;
    for (let head = 0; head < attention.num_heads; head++) {
      const own = facts.find((fact) => fact.name === attention.name && fact.head === head) ?? {};
      found.push({ attention, head, facts: own, weight: array && headOf(array, head).at(cell.row, cell.column) });
    }
  }
  return found;
}

function valueOf(one, rank) {
  return rank === CELL ? one.weight : (one.facts[rank] ?? null);
}

function ranked(heads, rank) {
  const largest = rank === CELL || STATISTICS[rank][2];
  const known = heads.filter((one) => valueOf(one, rank) !== null);
  return known.sort((a, b) => (largest ? valueOf(b, rank) - valueOf(a, rank) : valueOf(a, rank) - valueOf(b, rank)));
}

function rankPicker(state, facts, rank, part) {
  const known = Object.entries(STATISTICS).filter(([key]) => facts.some((fact) => fact.part === part && fact[key] !== null));
  return select({
    label: "Which head …", value: rank ?? "",
    options: [["", "in the model's order"], [CELL, "attends from one word to another"], ...known.map(([key, [name]]) => [key, name])],
    onchange: (value) => state.set("rank", value || null),
  });
}

function cellPicker(state, axes, cell) {
  const options = (axis) => axis.tokens.map((text, index) => [index, numbered(text, index)]);
  return [
    select({ label: axes.rows.after ? "from (written)" : "from", value: cell.row, options: options(axes.rows), onchange: (row) => state.set({ row, column: cell.column }) }),
    select({ label: "to", value: cell.column, options: options(axes.columns), onchange: (column) => state.set({ row: cell.row, column }) }),
  ];
}

function gridFigure({ context, part, rank, ordered, axes, cell }) {
  const { source, state, signal } = context;
  const maps = element("div", { class: rank ? "heads-ranked" : "heads-grid" });
  const open = ({ attention, head }) => state.set({ part, layer: attention.layer, head, view: "matrix", ...(rank === CELL ? cell : {}) });
  const tiles = ordered.map((one, place) => tile(one, rank, place, () => open(one)));
  if (rank) fill(maps, tiles);
  else fill(maps, byLayer(ordered, tiles));
  drawWhenSeen(ordered, tiles, source, signal);
  const words = rank === CELL
    ? `by the weight of “${visible(axes.rows.tokens[cell.row])}” on “${visible(axes.columns.tokens[cell.column])}”, the largest first`
    : rank && `by ${STATISTICS[rank][1]}, the ${STATISTICS[rank][2] ? "largest" : "smallest"} first`;
  return figure({
    name: `heads-${part}`,
    caption: `${ordered.length === 1 ? `The one ${part} head` : `The ${ordered.length} ${part} heads`}${rank ? ` ${words}` : ", one row per layer"}. Choose one to open its matrix.`,
    chart: maps,
    svg: async () => gridDrawing(await pictures(ordered, tiles, source), rank ? 6 : ordered[0].attention.num_heads),
    table: () => statisticsTable(ordered, rank),
  });
}

function byLayer(ordered, tiles) {
  const layers = [...new Set(ordered.map(({ attention }) => attention.layer))];
  return layers.map((layer) =>
    element("div", { class: "layer", role: "group", aria: { label: `Layer ${layer}` } },
      element("span", { class: "hint" }, `layer ${layer}`),
      element("div", { class: "tiles", style: { "--heads": String(ordered[0].attention.num_heads) } }, tiles.filter((_, i) => ordered[i].attention.layer === layer))),
  );
}

function tile(one, rank, place, onclick) {
  const { attention, head } = one;
  const title = `layer ${attention.layer}, head ${head}`;
  const value = rank && valueOf(one, rank);
  const shown = rank ? `${title}: ${number(value, 3)}` : `head ${head}`;
  const canvas = element("canvas", { width: 1, height: 1, aria: { hidden: "true" } });
  return element(
    "button",
    { type: "button", class: "tile", aria: { label: rank ? `${place + 1}. ${shown}` : title }, data: { title: rank ? shown : title }, on: { click: onclick, keydown: walk } },
    canvas,
    element("span", {}, rank ? title : shown),
    rank && element("strong", {}, number(value, 3)),
  );
}

/** Arrow keys move between tiles, by their position on the page. */
function walk(event) {
  const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (!way || event.altKey || event.metaKey || event.ctrlKey) return;
  event.preventDefault();
  const tiles = [...event.currentTarget.closest(".drawing").querySelectorAll(".tile")];
  const centre = (node) => {
    const box = node.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const [x, y] = centre(event.currentTarget);
  const ahead = tiles.map((node) => ({ node, at: centre(node) })).filter(({ at }) => (at[0] - x) * way[0] + (at[1] - y) * way[1] > 4);
  const cost = ({ at }) => Math.hypot((at[0] - x) * (way[0] ? 1 : 4), (at[1] - y) * (way[1] ? 1 : 4));
  ahead.sort((a, b) => cost(a) - cost(b))[0]?.node.focus();
}

/** Fetches and draws a thumbnail when it is scrolled near the window. */
function drawWhenSeen(ordered, tiles, source, signal) {
  const watcher = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      paint(target.querySelector("canvas"), ordered[tiles.indexOf(target)], source);
    }
  }, { rootMargin: "300px" });
  tiles.forEach((node) => watcher.observe(node));
  signal.addEventListener("abort", () => watcher.disconnect());
}

/** All thumbnails with their titles, to be saved on white, including those that were not visible yet. */
function pictures(ordered, tiles, source) {
  return Promise.all(ordered.map(async (one, i) => {
    const canvas = element("canvas");
    await paint(canvas, one, source, "light");
    return { canvas, title: tiles[i].dataset.title };
  }));
}

async function paint(canvas, { attention, head }, source, paper = null) {
  const weights = headOf(await source.array(`attention/${attention.name}`), head).pooled(96);
  canvas.redraw = () => shade(canvas, weights, paper ?? theme(canvas));
  canvas.redraw();
}

function shade(canvas, weights, paper) {
  const picture = pixels({ data: weights.values, shape: [weights.rows, weights.columns] }, sequentialTable(paper));
  const scale = Math.max(1, Math.ceil(192 / Math.max(weights.rows, weights.columns)));
  canvas.width = weights.columns * scale;
  canvas.height = weights.rows * scale;
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
}

function statisticsTable(ordered, rank) {
  const keys = Object.keys(STATISTICS);
  const weighed = rank === CELL;
  return {
    columns: ["head", ...(weighed ? [{ label: "weight of the cell", digits: 4 }] : []), ...keys],
    rows: ordered.map((one) => [
      `${one.attention.part} ${one.attention.layer}, head ${one.head}`, ...(weighed ? [one.weight] : []), ...keys.map((key) => one.facts[key] ?? null),
    ]),
  };
}
