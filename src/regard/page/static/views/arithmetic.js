// How one weight is computed: query, key, products, dot product, scale, bias, mask and softmax, with the model's numbers.
import { diverging, sequential } from "../colour.js";
import { element, select } from "../elements.js";
import { figure } from "../figure.js";
import { at } from "../npy.js";
import { drawing, group, line, rect, text, tokenText, widest } from "../svg.js";
import { number } from "../numbers.js";
import { numbered, token, visible } from "../tokens.js";
import { agrees, entropy, products, rowOfAttention } from "./arithmetic_of_cell.js";
import { rowWords } from "./heatmap.js";
import { choiceTitle, picker, redrawn, refill } from "./picker.js";
import { stage } from "./stage.js";
import { MEAN, axisOf, chosenAttention, chosenHead, wholeNumber } from "./weights.js";

export default {
  name: "arithmetic",
  title: "Arithmetic",
  about: "One attention weight, computed in this page from the model's own query and key: products, scale, mask and softmax.",
  possible: (summary) => summary.attentions.some(({ name }) => summary.resources.includes(`query/${name}`)),
  async draw(root, { source, state, signal }) {
    const keys = ["part", "layer", "head", "row", "column"];
    await redrawn({ state, signal, keys, draw: (own) => drawn(root, { source, state, signal: own }) });
  },
};

async function drawn(root, { source, state, signal }) {
  const { summary } = source;
  const attention = chosenAttention(summary, state);
  if (!source.has(`query/${attention.name}`)) {
    refill(root, picker({ summary, state }), element("p", { class: "hint" }, "No queries and keys are recorded for this attention."));
    return;
  }
  const axes = { rows: axisOf(summary, attention, "rows"), columns: axisOf(summary, attention, "columns") };
  const cell = {
    row: wholeNumber(state, "row", axes.rows.tokens.length, 0),
    column: wholeNumber(state, "column", axes.columns.tokens.length, 0),
  };
  const asked = chosenHead(attention, state);
  const head = asked === MEAN ? 0 : asked;
  const numbers = await numbersOf(source, attention, head, cell.row);
  if (signal.aborted) return;
  const computed = rowOfAttention(numbers);
  const context = { attention, head, axes, cell, numbers, computed, state };
  refill(
    root,
    picker({ summary, state, more: cellPickers(context) }),
    asked === MEAN && element("p", { class: "hint" }, "A mean over heads has no arithmetic of its own. This is head 0."),
    verdict(context),
    formula(context),
    productsFigure(context, root.clientWidth || 720),
    rowFigure(context, root.clientWidth || 720),
  );
}

/** The arrays from which a row of a head is computed. */
async function numbersOf(source, { name, softcap }, head, row) {
  const optional = async (kind) => (source.has(`${kind}/${name}`) ? source.array(`${kind}/${name}`) : null);
  const [query, key, weights, mask, bias] = await Promise.all([
    source.array(`query/${name}`), source.array(`key/${name}`), source.array(`attention/${name}`), optional("mask"), optional("bias"),
  ]);
  const shared = (array) => array && at(array, array.shape[0] === 1 ? 0 : head, Math.min(row, array.shape[1] - 1)).data;
  return {
    query: at(query, head, row).data,
    keys: Array.from({ length: key.shape[1] }, (_, column) => at(key, head, column).data),
    weights: at(weights, head, row).data,
    mask: shared(mask),
    bias: shared(bias),
    softcap,
  };
}

function cellPickers({ axes, cell, state }) {
  const options = (axis) => axis.tokens.map((words, index) => [index, numbered(words, index)]);
  return [
    select({ label: axes.rows.after ? "Query (while writing)" : "Query (from)", value: cell.row, options: options(axes.rows), onchange: (row) => state.set({ row, column: cell.column }) }),
    select({ label: "Key (to)", value: cell.column, options: options(axes.columns), onchange: (column) => state.set({ row: cell.row, column }) }),
  ];
}

/** True if the page's arithmetic agrees with the recorded weights of the whole row. */
function verdict({ computed, numbers, cell }) {
  const apart = Math.max(...computed.cells.map(({ weight }, i) => Math.abs(weight - numbers.weights[i])));
  const same = computed.cells.every(({ weight }, i) => agrees(weight, numbers.weights[i]));
  const own = computed.cells[cell.column].weight;
  const words = same
    ? `The page computes ${number(own, 4)}; the model recorded ${number(numbers.weights[cell.column], 4)}. They agree in the whole row, to half precision (largest difference ${number(apart, 5)}).`
    : `The page computes ${number(own, 4)}; the model recorded ${number(numbers.weights[cell.column], 4)}. They do not agree: the row differs by up to ${number(apart, 4)}.`;
  return element("p", { class: same ? "verdict" : "verdict wrong", role: "status" }, element("span", { aria: { hidden: "true" } }, same ? "✓ " : "✗ "), words);
}

function formula({ axes, cell, numbers, computed }) {
  const own = computed.cells[cell.column];
  const d = numbers.query.length;
  const step = (title, words, value) => element("li", {}, element("span", { class: "step" }, title), element("span", {}, words), element("strong", {}, value));
  const allowed = own.allowed ? "allowed: the score is unchanged" : "masked: the score becomes −∞";
  return element(
    "ol", { class: "formula" },
    step("dot product", ["query of ", token(axes.rows.tokens[cell.row]), " · key of ", token(axes.columns.tokens[cell.column]), ` over ${d} numbers`], number(own.dot, 4)),
    step("scale", `÷ √${d} = ${number(computed.scale, 3)}`, number(own.dot / computed.scale, 4)),
    numbers.softcap && step("soft cap", `${number(numbers.softcap, 3)} · tanh(score ÷ ${number(numbers.softcap, 3)})`, number(own.score - own.bias, 4)),
    numbers.bias && step("position bias", `+ ${number(own.bias, 4)}`, number(own.score, 4)),
    numbers.mask && step("mask", allowed, own.allowed ? number(own.score, 4) : "−∞"),
    step("exp", own.allowed ? `e to the ${number(own.score - computed.largest, 4)} (after subtracting the row's largest score, ${number(computed.largest, 4)})` : "e to the −∞", number(own.exponential, 4)),
    step("softmax", `÷ ${number(computed.total, 4)}, the sum over the row`, number(own.weight, 4)),
  );
}

function productsFigure({ attention, head, axes, cell, numbers }, width) {
  const key = numbers.keys[cell.column];
  const each = products(numbers.query, key);
  const strips = [["query", numbers.query], ["key", key], ["product", each]];
  const chart = stripsDrawing(strips, width - 4);
  const field = stage({
    label: "The numbers of query and key, and their products. Left and right choose a number.",
    chart: chart.node, size: { rows: 1, columns: each.length }, locate: chart.locate,
    onPoint: (place) => {
      chart.point(place);
      if (!place) return "";
      const i = place.column;
      return `Number ${i} of ${each.length}: ${number(numbers.query[i])} × ${number(key[i])} = ${number(each[i])}`;
    },
  });
  return figure({
    name: `products-${attention.part}-${attention.layer}-${head}-${cell.row}-${cell.column}`,
    caption: `Query of ${rowWords(axes.rows, cell.row)}, key of “${visible(axes.columns.tokens[cell.column])}”, and their products; bars up are positive, bars down negative. The products sum to the dot product.`,
    chart: field,
    table: () => ({
      columns: ["number", { label: "query", digits: 4 }, { label: "key", digits: 4 }, { label: "product", digits: 4 }],
      rows: Array.from(each, (product, i) => [i, numbers.query[i], key[i], product]),
      onMove: (i) => field.point({ row: 0, column: i }),
    }),
  });
}

function stripsDrawing(strips, width) {
  const left = 72;
  const count = strips[0][1].length;
  const wide = Math.max(5, (width - left - 4) / count);
  const high = 62;
  const size = { width: left + wide * count + 4, height: strips.length * (high + 16) };
  const bars = strips.map(([name, values], strip) => {
    const middle = strip * (high + 16) + high / 2 + 6;
    const most = Math.max(1e-9, ...Array.from(values, Math.abs));
    return group({},
      text(left - 10, middle - 4, name, { anchor: "end" }),
      text(left - 10, middle + 12, `± ${number(most, 2)}`, { anchor: "end", class: "soft" }),
      line(left, middle, left + wide * count, middle, { class: "axis" }),
      Array.from(values, (value, i) => {
        const tall = (Math.abs(value) / most) * (high / 2);
        const shade = (value < 0 ? -1 : 1) * (0.45 + (0.4 * Math.abs(value)) / most);
        return rect(left + i * wide + 0.5, value < 0 ? middle : middle - tall, Math.max(1, wide - 1), Math.max(0.6, tall), { fill: diverging(shade) });
      }));
  });
  const marker = rect(0, 2, wide, size.height - 4, { class: "marker", visibility: "hidden" });
  const node = drawing(size.width, size.height, bars, marker);
  return {
    node,
    locate(event) {
      const box = node.getBoundingClientRect();
      const column = Math.floor((((event.clientX - box.left) / box.width) * size.width - left) / wide);
      return column >= 0 && column < count ? { row: 0, column } : null;
    },
    point(place) {
      marker.setAttribute("visibility", place ? "visible" : "hidden");
      if (place) marker.setAttribute("x", left + place.column * wide);
    },
  };
}

/** The weights of the whole row. */
function rowFigure({ attention, head, axes, cell, numbers, computed, state }, width) {
  const chart = rowDrawing(axes.columns, computed, cell, width - 4);
  const field = stage({
    label: "The row's weights. Up and down choose a key.",
    chart: chart.node, size: { rows: computed.cells.length, columns: 1 }, locate: chart.locate, at: { row: cell.column, column: 0 },
    onPoint: (place) => {
      chart.point(place);
      if (!place) return "";
      const { score, allowed, weight } = computed.cells[place.row];
      return `“${visible(axes.columns.tokens[place.row])}”: score ${allowed ? number(score) : "masked"}, weight ${number(weight, 4)}`;
    },
    onOpen: (place) => state.set({ row: cell.row, column: place.row }),
  });
  const weights = computed.cells.map(({ weight }) => weight);
  return figure({
    name: `row-${attention.part}-${attention.layer}-${head}-${cell.row}`,
    caption: `Every key in the row of ${rowWords(axes.rows, cell.row)} (${choiceTitle(attention, head)}): its score and its weight. The weights sum to 1; their entropy is ${number(entropy(weights), 2)} nats. Enter shows another key's arithmetic.`,
    chart: field,
    table: () => ({
      columns: ["key", "dot", "÷ √d", ...(numbers.bias ? ["bias"] : []), "score", "allowed", "exp", { label: "weight", digits: 4 }, { label: "recorded", digits: 4 }],
      rows: computed.cells.map((one, i) => [
        numbered(axes.columns.tokens[i], i), one.dot, one.scaled, ...(numbers.bias ? [one.bias] : []), one.score, one.allowed ? "yes" : "no", one.exponential, one.weight, numbers.weights[i],
      ]),
      selected: [cell.column, 0],
      onMove: (row) => field.point({ row, column: 0 }),
    }),
  });
}

function rowDrawing(axis, computed, cell, width) {
  const high = 26;
  const left = 12 + widest(axis.tokens);
  const score = left + 78;
  const room = Math.max(60, width - score - 70);
  const size = { width: score + room + 66, height: 24 + computed.cells.length * high };
  const lines = computed.cells.map((one, i) => {
    const y = 24 + i * high;
    const own = i === cell.column;
    const wide = Math.max(1, room * one.weight);
    return group({ class: own ? "own" : null },
      tokenText(left - 8, y + 17, axis.tokens[i], { anchor: "end", special: axis.special[i] }),
      text(score - 14, y + 17, one.allowed ? number(one.score, 2) : "masked", { anchor: "end", class: one.allowed ? null : "soft" }),
      rect(score, y + 4, wide, high - 8, { rx: 2, fill: sequential(0.35 + 0.5 * one.weight), class: own ? "chosen" : null }),
      text(score + wide + 6, y + 17, number(one.weight, 4)));
  });
  const marker = rect(1, 0, size.width - 2, high, { rx: 4, class: "marker", visibility: "hidden" });
  const node = drawing(size.width, size.height, text(score - 14, 14, "score", { anchor: "end", class: "soft" }), text(score, 14, "weight", { class: "soft" }), lines, marker);
  return {
    node,
    locate(event) {
      const box = node.getBoundingClientRect();
      const row = Math.floor((((event.clientY - box.top) / box.height) * size.height - 24) / high);
      return row >= 0 && row < computed.cells.length ? { row, column: 0 } : null;
    },
    point(place) {
      marker.setAttribute("visibility", place ? "visible" : "hidden");
      if (place) marker.setAttribute("y", 24 + place.row * high);
    },
  };
}
