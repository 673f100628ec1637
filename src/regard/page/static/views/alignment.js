// Cross-attention as a ribbon chart: source above, output below, bands from each word to the words it attends to.
import { element, select, slider } from "../elements.js";
import { figure } from "../figure.js";
import { number } from "../numbers.js";
import { numbered, visible } from "../tokens.js";
import { redrawn, refill } from "./picker.js";
import { ribbon } from "./ribbon.js";
import { stage } from "./stage.js";
import { MEAN, headOf, matrixOf } from "./weights.js";

const CHOSEN = "chosen";

export default {
  name: "alignment",
  title: "Alignment",
  about: "Which source words each output word comes from, by the decoder's cross-attention. The width of a band is its weight.",
  possible: (summary) => summary.alignment !== null,
  async draw(root, { source, state, signal }) {
    await redrawn({ state, signal, keys: ["aligned"], draw: (own) => drawn({ root, source, state, signal: own }) });
  },
};

async function drawn({ root, source, state, signal }) {
  const { summary } = source;
  const choice = state.get("aligned", CHOSEN);
  const cross = summary.attentions.filter((attention) => attention.part === "cross");
  const weights = await weightsOf(source, cross, choice);
  if (signal.aborted) return;
  const width = Math.max(280, (root.clientWidth || 720) - 4);
  const shown = ribbonFigure({ summary, state, weights, choice, width });
  refill(
    root,
    element("div", { class: "controls" },
      select({
        label: "Weights of", value: choice, onchange: (value) => state.set("aligned", value === CHOSEN ? null : value),
        options: [[CHOSEN, `layer ${summary.alignment.layer} (chosen automatically)`], ...cross.flatMap(choices)],
      }),
      slider({
        label: "Hide weights below", min: 0, max: 0.6, step: 0.02, value: least(state), format: (value) => value.toFixed(2),
        oninput: (value) => (state.set("band", value), shown.update()),
      })),
    choice === CHOSEN && element("p", { class: "hint" }, `Layer ${summary.alignment.layer}${headsOf(summary.alignment)}: ${summary.alignment.why}.`),
    shown.figure,
    pharaoh(summary.alignment),
  );
}

function least(state) {
  return state.number("band", 0.1);
}

function choices(attention) {
  const heads = Array.from({ length: attention.num_heads }, (_, head) => [`${attention.layer}.${head}`, `layer ${attention.layer}, head ${head}`]);
  const mean = [`${attention.layer}.${MEAN}`, `layer ${attention.layer}, mean of its heads`];
  return attention.num_heads > 1 ? [mean, ...heads] : heads;
}

function headsOf({ heads }) {
  if (!heads) return "";
  return heads.length === 1 ? `, head ${heads[0]}` : `, heads ${heads.join(", ")}`;
}

async function weightsOf(source, cross, choice) {
  const [layer, head] = choice.split(".");
  const attention = cross.find((one) => String(one.layer) === layer);
  if (choice === CHOSEN || !attention) return matrixOf(await source.array("alignment"));
  const number = Number(head);
  return headOf(await source.array(`attention/${attention.name}`), Number.isInteger(number) && number < attention.num_heads ? number : MEAN);
}

function ribbonFigure({ summary, state, weights, choice, width }) {
  const { source, written } = summary.sequences;
  const pairs = new Set(choice === CHOSEN ? summary.alignment.pairs.map(([i, j]) => `${i}-${j}`) : []);
  const drawn = ribbon({ source, written, weights, pairs, width });
  drawn.update(least(state));
  const field = stage({
    label: "Alignment. Left and right choose a word, up and down its side, Escape none.",
    chart: drawn.chart,
    size: { rows: weights.rows, columns: weights.columns },
    locate: drawn.locate,
    walk: (key, from) => walked(key, from, weights, drawn.turned),
    onPoint: (word) => {
      drawn.point(word);
      return word ? sentence(word, summary, weights) : "";
    },
    onChoose: (word) => state.set(word.side === "written" ? { row: word.index } : { column: word.index }),
  });
  const shown = figure({
    name: "alignment",
    caption: `Source above, written below. ${pairs.size ? "The outlined bands are the alignment." : ""}`,
    chart: field,
    table: () => ({
      columns: ["written", { label: "best source", kind: "token" }, "pair", { label: "weight" }, ...source.tokens.slice(0, weights.columns).map((text, i) => ({ label: numbered(text, i), labelKind: "token" }))],
      rows: Array.from({ length: weights.rows }, (_, row) => tableRow(row, written, source, weights)),
      onMove: (row) => field.point({ side: "written", index: row }),
    }),
  });
  return { figure: shown, update: () => drawn.update(least(state)) };
}

function tableRow(row, written, source, weights) {
  const best = strongest(weights.row(row));
  return [numbered(written.tokens[row], row), source.tokens[best], `${best}-${row}`, weights.at(row, best), ...weights.row(row)];
}

function strongest(weights) {
  let best = 0;
  weights.forEach((weight, index) => {
    if (weight > weights[best]) best = index;
  });
  return best;
}

function walked(key, from, weights, turned) {
  if (!from) return { side: "written", index: 0 };
  const length = { source: weights.columns, written: weights.rows };
  if (key === "ArrowUp" || key === "ArrowDown") {
    const side = key === "ArrowUp" ? "source" : "written";
    return { side, index: Math.min(from.index, length[side] - 1) };
  }
  const step = (key === "ArrowRight") === !turned[from.side] ? 1 : -1;
  return { side: from.side, index: Math.min(length[from.side] - 1, Math.max(0, from.index + step)) };
}

/** A word and its three strongest partners. */
function sentence({ side, index }, summary, weights) {
  const other = side === "written" ? "source" : "written";
  const values = side === "written" ? weights.row(index) : weights.column(index);
  const best = Array.from(values, (weight, at) => ({ at, weight })).sort((a, b) => b.weight - a.weight).slice(0, 3).filter(({ weight }) => weight >= 0.005);
  const name = (where, at) => `“${visible(summary.sequences[where].tokens[at])}”`;
  return `${name(side, index)} ${side === "written" ? "comes from" : "became"} ${best.map(({ at, weight }) => `${name(other, at)} ${number(weight, 2)}`).join(", ") || "nothing"}`;
}

/** The alignment in the Pharaoh format. */
function pharaoh({ pharaoh: pairs }) {
  const words = "Pharaoh pairs (source-written, counted from 0)";
  const code = element("code", {}, pairs || "none");
  if (pairs.length < 300) return element("p", { class: "pharaoh" }, `${words}: `, code);
  return element("details", { class: "pharaoh" }, element("summary", {}, words), code);
}
