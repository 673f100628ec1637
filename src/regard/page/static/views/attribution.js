// The attribution of a written token to input tokens by gradients, next to the attention weights.
import { diverging, sequential } from "../colour.js";
import { element, select } from "../elements.js";
import { figure } from "../figure.js";
import { drawing, group, line, rect, text, textWidth, tokenText, widest } from "../svg.js";
import { number } from "../numbers.js";
import { numbered, visible } from "../tokens.js";
import { heatmap } from "./heatmap.js";
import { matrixTable } from "./matrix.js";
import { redrawn, refill } from "./picker.js";
import { offer, slowOf } from "./slow.js";
import { inDrawing, stage } from "./stage.js";
import { MEAN, headOf, matrixOf, wholeNumber } from "./weights.js";

const TITLES = { gradient: "gradient × input", integrated: "integrated gradients", attention: "attention" };
const MISSING = "attribution/missing"; // of integrated gradients: the gain of each row, minus its sum
const HIGH = 25;

export default {
  name: "attribution",
  title: "Attribution",
  about: "How much each token raised or lowered the log-probability of the answer, by two gradient methods, with attention for comparison. Where they disagree, attention alone is misleading.",
  possible: (summary) => summary.resources.includes("attribution"),
  async draw(root, { source, state, signal }) {
    await redrawn({ state, signal, keys: ["row", "method"], draw: (own) => drawn(root, { source, state, signal: own }) });
  },
};

async function drawn(root, { source, state, signal }) {
  const facts = await source.json("attribution");
  const methods = facts.methods.filter((method) => source.has(`attribution/${method}`));
  const slow = slowOf(source, methods.map((method) => `attribution/${method}`));
  const quick = methods.filter((method) => !slow.includes(`attribution/${method}`));
  const more = slow.length > 0 && offer({
    source, paths: slow.slice(0, 1), what: TITLES[slow[0].slice("attribution/".length)] ?? slow[0],
    go: () => drawn(root, { source, state, signal }),
  });
  if (!quick.length) {
    refill(root, more);
    return;
  }
  const found = await Promise.all(quick.map(async (method) => [method, matrixOf(await source.array(`attribution/${method}`))]));
  const missing = quick.includes("integrated") && source.has(MISSING) ? (await source.array(MISSING)).data : null;
  const attention = await besideIt(source, facts, found[0][1]);
  if (signal.aborted) return;
  const { sequences } = source.summary;
  const columns = { title: facts.columns, ...sequences[facts.columns], after: null };
  const rows = { title: sequences.written ? "written" : "answer", ...rowsOf(source.summary, facts.rows), after: null };
  if (!rows.tokens.length) {
    refill(root, element("p", { class: "hint" }, "The answer is empty, so there are no attributions."));
    return;
  }
  const chosen = facts.rows?.indexOf(wholeNumber(state, "row")) ?? 0; // in the address it is the token's position in the whole text
  const row = Math.max(0, chosen);
  const width = root.clientWidth || 720;
  refill(
    root,
    rows.tokens.length > 1 && element("div", { class: "controls" }, select({
      label: "The token explained", value: facts.rows[row], options: rows.tokens.map((words, i) => [facts.rows[i], numbered(words, facts.rows[i])]), onchange: (value) => state.set("row", value),
    })),
    barsFigure({ found, attention, rows, columns, row, width }),
    missing && element("p", { class: "hint" }, whatIsMissing(visible(rows.tokens[row]), missing[row], new Map(found).get("integrated").row(row), facts.most_missing)),
    element("p", { class: "hint" }, facts.note),
    rows.tokens.length > 1 && mapFigure({ found, rows, columns, row, state, width }),
    more,
  );
}

/** What a row of integrated gradients misses; large if it is more than a share of the gain, and more than so many nats. */
function whatIsMissing(token, missing, values, { share, nats }) {
  const gain = values.reduce((sum, value) => sum + value, missing);
  const much = Math.abs(missing) > Math.max(nats, share * Math.abs(gain)) ? ": too much to rely on them" : "";
  return `The integrated gradients of “${token}” miss ${number(missing)} of the ${number(gain)} nats that its log-probability gains on their path${much}.`;
}

/** The name of the answer's parts: written tokens, tags of words, predictions of masked tokens, a class. */
function rowsOf({ sequences, answer }, places) {
  if (places === null) return { tokens: [answer?.labels?.[0]?.label ?? "the answer"], special: [false] };
  const { tokens, special } = sequences.written ?? sequences.text;
  const tags = new Map((answer?.tags ?? []).map(({ position, token, tag }) => [position, `${token} ${tag}`]));
  return { tokens: places.map((place) => tags.get(place) ?? tokens[place]), special: places.map((place) => special[place] && !tags.has(place)) };
}

/** Attention over the same columns: the alignment, or the mean of the last layer that attends to them; or null. */
async function besideIt(source, { columns, rows }, like) {
  const { summary } = source;
  const last = summary.attentions.findLast((one) => one.columns === columns && (one.rows !== columns || columns !== "source"));
  if (!last) return null;
  const matrix = headOf(await source.array(`attention/${last.name}`), MEAN);
  if (matrix.columns !== like.columns) return null;
  const words = `${last.part} layer ${last.layer}, mean of its heads`;
  if (rows) return { matrix: matrix.ofRows(rows), title: `attention (${words})` };
  return { matrix: matrix.meanOfRows(), title: `attention (${words} and rows)` }; // one answer for the whole text
}

function barsFigure({ found, attention, rows, columns, row, width }) {
  const panels = found.map(([method, matrix]) => ({ title: TITLES[method] ?? method, values: matrix.row(row), signed: true }));
  if (attention) panels.push({ title: attention.title, values: attention.matrix.row(row), signed: false });
  const chart = panelsDrawing(panels, columns, width - 4);
  const field = stage({
    label: "Attributions to each token. Up and down choose a token.",
    chart: chart.node, size: { rows: columns.tokens.length, columns: 1 }, locate: chart.locate,
    onPoint(place) {
      chart.point(place?.row ?? null);
      if (!place) return "";
      return `“${visible(columns.tokens[place.row])}”: ${panels.map(({ title, values }) => `${title} ${number(values[place.row])}`).join(", ")}`;
    },
  });
  return figure({
    name: `attribution-${row}`,
    caption: `Attributions for “${visible(rows.tokens[row])}”. Bars to the right raised its log-probability, bars to the left lowered it; each panel has its own scale.`,
    chart: field,
    table: () => ({
      columns: [columns.title, ...panels.map(({ title }) => ({ label: title, digits: 4 }))],
      rows: columns.tokens.map((words, i) => [numbered(words, i), ...panels.map(({ values }) => values[i])]),
      onMove: (at) => field.point({ row: at, column: 0 }),
    }),
  });
}

function panelsDrawing(panels, columns, width) {
  const left = 14 + widest(columns.tokens, 12);
  const room = (width - left) / panels.length;
  const height = 30 + columns.tokens.length * HIGH;
  const names = columns.tokens.map((words, i) => tokenText(left - 10, 30 + i * HIGH + 17, words, { anchor: "end", special: columns.special[i], length: 12 }));
  const drawn = panels.map(({ title, values, signed }, panel) => {
    const start = left + panel * room;
    const most = Math.max(1e-9, ...Array.from(values, Math.abs));
    const zero = signed ? start + room * 0.47 : start + 4;
    const unit = (signed ? room * 0.43 : room - 12) / most;
    return group({},
      text(start + (signed ? room * 0.47 : 4), 16, fitting(title, room), { anchor: signed ? "middle" : "start", class: "soft" }),
      line(zero, 26, zero, height - 2, { class: "axis" }),
      Array.from(values, (value, i) => {
        const wide = Math.max(0.5, Math.abs(value) * unit);
        const strength = 0.4 + (0.45 * Math.abs(value)) / most;
        const fill = signed ? diverging(Math.sign(value) * strength) : sequential(strength);
        return rect(value < 0 ? zero - wide : zero, 30 + i * HIGH + 5, wide, HIGH - 9, { rx: 2, fill });
      }));
  });
  const marker = rect(1, 0, width - 2, HIGH, { rx: 4, class: "marker", visibility: "hidden" });
  const node = drawing(width, height, names, drawn, marker);
  return {
    node,
    locate(event) {
      const row = Math.floor((inDrawing(node, event).y - 30) / HIGH);
      return row >= 0 && row < columns.tokens.length ? { row, column: 0 } : null;
    },
    point(row) {
      marker.setAttribute("visibility", row === null ? "hidden" : "visible");
      if (row !== null) marker.setAttribute("y", 30 + row * HIGH + 0.5);
    },
  };
}

/** The title, cut to the available width. */
function fitting(title, room) {
  return [title, title.split(" (")[0], title.split(" ")[0]].find((words) => textWidth(words) < room - 8) ?? "";
}

function mapFigure({ found, rows, columns, row, state, width }) {
  const method = found.find(([name]) => name === state.get("method"))?.[0] ?? found[0][0];
  const matrix = new Map(found).get(method);
  const most = matrix.values.reduce((largest, value) => Math.max(largest, Math.abs(value)), 1e-9);
  const map = heatmap({
    matrix, rows, columns, label: `Map of ${TITLES[method] ?? method}`, at: { row, column: 0 }, signed: most,
    colour: (value) => diverging(value / most),
    width: width - 4,
    say: (cell) => `“${visible(columns.tokens[cell.column])}” gave “${visible(rows.tokens[cell.row])}” ${number(matrix.at(cell.row, cell.column))}`,
  });
  return figure({
    name: `attribution-${method}`,
    caption: `All tokens of the answer, by ${TITLES[method] ?? method}: blue raised the log-probability, orange lowered it, by at most ${number(most, 2)} nats.`,
    chart: element("div", {},
      found.length > 1 && select({ label: "Method", value: method, options: found.map(([name]) => [name, TITLES[name] ?? name]), onchange: (value) => state.set("method", value) }),
      map.tools, map),
    table: () => matrixTable({ weights: matrix, axes: { rows, columns }, onMove: (r, c) => map.point({ row: r, column: c }) }),
  });
}
