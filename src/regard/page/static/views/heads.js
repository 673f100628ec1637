// The head view, after BertViz (Vig 2019): queries at the left, keys at the right, a line for each weight.
import { headColour } from "../colour.js";
import { button, element, slider, svgElement } from "../elements.js";
import { figure } from "../figure.js";
import { number } from "../numbers.js";
import { headDash } from "../strokes.js";
import { line } from "../svg.js";
import { visible } from "../tokens.js";
import { FEW, rowWords } from "./heatmap.js";
import { fewLines } from "./lines.js";
import { manyLines } from "./longlines.js";
import { picker, redrawn, refill } from "./picker.js";
import { stage } from "./stage.js";
import { attentionTitle, axisOf, chosenAttention, headOf, wholeNumber } from "./weights.js";

export default {
  name: "heads",
  title: "Heads",
  about: "Lines run from each token to the tokens it attends to, thicker for a larger weight, one colour per head. Point at a token to see only its lines.",
  possible: (summary) => summary.attentions.length > 0,
  async draw(root, { source, state, signal }) {
    await redrawn({ state, signal, keys: ["part", "layer"], draw: (own) => drawn(root, { source, state, signal: own }) });
  },
};

async function drawn(root, { source, state, signal }) {
  const { summary } = source;
  const attention = chosenAttention(summary, state);
  const array = await source.array(`attention/${attention.name}`);
  if (signal.aborted) return;
  const all = Array.from({ length: attention.num_heads }, (_, head) => headOf(array, head));
  const axes = { rows: axisOf(summary, attention, "rows"), columns: axisOf(summary, attention, "columns") };
  const least = () => state.number("lines", Math.max(axes.rows.tokens.length, axes.columns.tokens.length) > FEW ? 0.05 : 0.02);
  const lines = () => linesOf(all, shownHeads(attention, state), least());
  const chart = lineFigure({ root, state, attention, all, axes, lines });
  const chips = headChips(attention, state);
  state.listen((event) => {
    if (event.detail.keys.some((key) => key === "shown" || key === "head")) {
      chips.show();
      chart.update();
    }
  }, { signal });
  const cut = slider({
    label: "Hide weights below", min: 0, max: 0.5, step: 0.01, value: least(), format: (value) => value.toFixed(2),
    oninput: (value) => (state.set("lines", value), chart.update()),
  });
  refill(root, picker({ summary, state, heads: false, more: cut }), chips.node, chart.figure);
}

/** The heads to show: those that the state lists, else the chosen one, else all. */
function shownHeads(attention, state) {
  const all = Array.from({ length: attention.num_heads }, (_, head) => head);
  const listed = state.get("shown");
  if (listed === "all") return all;
  if (listed !== null) return all.filter((head) => listed.split(",").includes(String(head)));
  const chosen = wholeNumber(state, "head", attention.num_heads);
  return chosen === null ? all : [chosen];
}

/** All weights of these heads that are at least `least`, as {row, column, head, weight}. */
function linesOf(all, heads, least) {
  const lines = [];
  for (const head of heads) {
    const { rows, columns, values } = all[head];
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const weight = values[row * columns + column];
        if (weight >= least && weight > 0.0005) lines.push({ row, column, head, weight });
      }
    }
  }
  return lines;
}

/** One button for each head: a click toggles it, a double click or "o" shows it alone. */
function headChips(attention, state) {
  const set = (heads) => state.set({ shown: heads.length === attention.num_heads ? "all" : heads.join(","), head: heads.length === 1 ? heads[0] : state.get("head") });
  const toggle = (head) => {
    const shown = shownHeads(attention, state);
    set(shown.includes(head) ? shown.filter((other) => other !== head) : [...shown, head].sort((a, b) => a - b));
  };
  const chips = Array.from({ length: attention.num_heads }, (_, head) => {
    const sample = line(0, 5, 30, 5, { stroke: headColour(head), "stroke-width": 4, "stroke-dasharray": headDash(head) });
    const swatch = svgElement("svg", { class: "swatch", viewBox: "0 0 30 10", aria: { hidden: "true" } }, sample);
    const chip = button([swatch, String(head)], (event) => (event.shiftKey ? set([head]) : toggle(head)), {
      class: "toggle", pressed: false, aria: { label: `Head ${head}`, keyshortcuts: "o" }, title: "click: on or off; double click, Shift or o: only this head",
    });
    chip.addEventListener("dblclick", () => set([head]));
    chip.addEventListener("keydown", (event) => event.key === "o" && !event.ctrlKey && !event.metaKey && set([head]));
    return chip;
  });
  const every = Array.from({ length: attention.num_heads }, (_, head) => head);
  const show = () => {
    const shown = shownHeads(attention, state);
    chips.forEach((chip, head) => chip.setAttribute("aria-pressed", String(shown.includes(head))));
  };
  show();
  const name = element("span", { class: "hint" }, "Heads");
  const node = attention.num_heads === 1 ? null : element(
    "div", { class: "toggles", role: "group", aria: { label: "Heads that are shown" } }, name, chips,
    button("All", () => set(every), { class: "quiet" }),
    element("span", { class: "hint" }, "double click, or o: only that head"),
  );
  return { node, show };
}

function lineFigure({ root, state, attention, all, axes, lines }) {
  const many = Math.max(axes.rows.tokens.length, axes.columns.tokens.length) > FEW;
  const width = Math.max(264, (root.clientWidth || 720) - 8);
  const painter = (many ? manyLines : fewLines)({ axes, width, heads: attention.num_heads });
  const title = () => `Attention (${attentionTitle(attention)}), ${headsInWords(attention, shownHeads(attention, state))}: `
    + `queries on the left (${axes.rows.title}), keys on the right (${axes.columns.title}).`;
  const field = stage({
    label: `Head view of ${attentionTitle(attention)}. Up and down choose a token, left and right its side, Escape none.`,
    chart: painter.chart,
    class: many ? "scrolling" : "",
    size: { rows: axes.rows.tokens.length, columns: axes.columns.tokens.length },
    locate: painter.locate,
    walk: (key, from) => walked(key, from, axes),
    onPoint: (token) => {
      painter.point(token);
      return token ? sentence(token, axes, all, shownHeads(attention, state)) : "";
    },
    onChoose: (token) => {
      painter.reveal?.(token);
      state.set(token.side === "rows" ? { row: token.index } : { column: token.index });
    },
  });
  painter.attach?.(field.field);
  painter.update(lines());
  const shown = figure({
    name: `heads-${attention.part}-${attention.layer}`,
    caption: title(),
    chart: field,
    table: () => ({
      columns: [
        "line", { label: axes.rows.title, kind: "token" }, { label: axes.columns.title, kind: "token" }, "head", { label: "weight", digits: 4 },
      ],
      rows: lines().map(({ row, column, head, weight }, i) => [i + 1, axes.rows.tokens[row], axes.columns.tokens[column], head, weight]),
      onMove: (line) => {
        const found = lines()[line];
        if (found) field.point({ side: "rows", index: found.row });
      },
    }),
  });
  return {
    figure: shown,
    update() {
      painter.update(lines());
      shown.refresh(null, title());
    },
  };
}

function headsInWords(attention, heads) {
  if (attention.num_heads === 1) return "its only head";
  if (heads.length === attention.num_heads) return `all ${heads.length} heads`;
  if (!heads.length) return "no head";
  return `${heads.length > 1 ? "heads" : "head"} ${heads.join(", ")}`;
}

function walked(key, from, axes) {
  if (!from) return { side: "rows", index: 0 };
  const length = (side) => axes[side].tokens.length;
  if (key === "ArrowLeft") return { side: "rows", index: Math.min(from.index, length("rows") - 1) };
  if (key === "ArrowRight") return { side: "columns", index: Math.min(from.index, length("columns") - 1) };
  const step = key === "ArrowUp" ? -1 : 1;
  return { side: from.side, index: Math.min(length(from.side) - 1, Math.max(0, from.index + step)) };
}

/** The three strongest lines of a token as a sentence. */
function sentence({ side, index }, axes, all, heads) {
  const other = side === "rows" ? "columns" : "rows";
  const found = heads.flatMap((head) => {
    const weights = side === "rows" ? all[head].row(index) : all[head].column(index);
    return Array.from(weights, (weight, at) => ({ at, head, weight }));
  });
  const best = found.sort((a, b) => b.weight - a.weight).slice(0, 3).filter(({ weight }) => weight > 0.0005);
  const own = side === "rows" ? rowWords(axes.rows, index) : `“${visible(axes.columns.tokens[index])}”`;
  const links = best.map(({ at, head, weight }) => `“${visible(axes[other].tokens[at])}” ${number(weight, 2)}${all.length > 1 ? ` (head ${head})` : ""}`);
  if (!links.length) return `${own}: no lines`;
  return `${own} ${side === "rows" ? "attends most to" : "gets most attention from"} ${links.join(", ")}`;
}
