// The drawing of an alignment: two lines of words and the bands between them.
import { sequential } from "../colour.js";
import { drawing, group, line, path, textWidth, tokenText } from "../svg.js";
import { shortened } from "../tokens.js";
import { inDrawing } from "./stage.js";
import { runsFromRight } from "./weights.js";

const WORD = 170; // maximal width of a word in pixels
const HEIGHT = 250;
const TOP = 34; // the foot of the source's words
const BOTTOM = HEIGHT - 34; // the head of the written words

/**
 * A ribbon of `weights` [written, source]: {chart, turned, update(least), point(word), locate(event)}, where a word is
 * {side: "source"|"written", index}. `pairs`: a set of "i-j" to outline.
 */
export function ribbon({ source, written, weights, pairs, width }) {
  const sides = { source: placed(source, weights.columns), written: placed(written, weights.rows) };
  const total = Math.max(sides.source.width, sides.written.width);
  const full = Math.max(total, Math.min(width, Math.max(total * 1.6, WORD * Math.max(weights.rows, weights.columns))));
  for (const side of Object.values(sides)) spread(side, full);
  const bands = group({ class: "bands" });
  const lit = group({ class: "lit" });
  const names = { source: words(source, sides.source, TOP - 14), written: words(written, sides.written, BOTTOM + 24) };
  const chart = drawing(full, HEIGHT, bands, lit, group({}, names.source), group({}, names.written));
  chart.classList.add("ribbon");
  let shown = [];
  let pointed = null;

  function update(least) {
    shown = strips(weights, sides, least);
    bands.replaceChildren(...shown.map((strip) => band(strip, 0.75)), ...ends());
    point(pointed);
  }

  function band({ row, column, weight, d }, opacity) {
    const outlined = pairs.has(`${column}-${row}`);
    return path(d, { fill: sequential(0.25 + 0.6 * weight), "fill-opacity": opacity, class: outlined ? "pair" : "band" });
  }

  function ends() {
    return ["source", "written"].flatMap((side) => sides[side].slots.map(({ x, width: wide }) => {
      const y = side === "source" ? TOP - 5 : BOTTOM + 5;
      return line(x, y, x + wide, y, { class: "slot" });
    }));
  }

  function point(word) {
    if (pointed) names[pointed.side][pointed.index]?.classList.remove("on");
    pointed = word;
    chart.classList.toggle("isolated", Boolean(word));
    if (!word) return lit.replaceChildren();
    names[word.side][word.index].classList.add("on");
    lit.replaceChildren(...shown.filter((strip) => (word.side === "written" ? strip.row : strip.column) === word.index).map((strip) => band(strip, 1)));
  }

  function locate(event) {
    const { x, y } = inDrawing(chart, event);
    const side = y < TOP + 20 ? "source" : y > BOTTOM - 20 ? "written" : null;
    if (!side) return null;
    const index = sides[side].slots.findIndex((slot) => x >= slot.x - 4 && x < slot.x + slot.width + 4);
    return index < 0 ? null : { side, index };
  }

  return { chart, update, point, locate, turned: { source: sides.source.turned, written: sides.written.turned } };
}

/** Slots of a line of words, as wide as its words; a line of right-to-left words runs from the right. */
function placed({ tokens }, count) {
  const widths = tokens.slice(0, count).map((text) => Math.max(26, textWidth(shortened(text)) + 4));
  return { widths, turned: runsFromRight(tokens), width: widths.reduce((sum, wide) => sum + wide + 14, 2) };
}

function spread(side, full) {
  const gap = (full - side.widths.reduce((sum, wide) => sum + wide, 0)) / side.widths.length;
  let x = gap / 2;
  side.slots = side.widths.map((wide) => {
    const slot = { x: side.turned ? full - x - wide : x, width: wide };
    x += wide + gap;
    return slot;
  });
}

function words({ tokens, special }, { slots }, y) {
  return slots.map(({ x, width }, i) => tokenText(x + width / 2, y, tokens[i], { anchor: "middle", special: special[i] }));
}

/**
 * The bands. At the output's end each band has its share of the word's width. At the source's end the bands of a word share
 * its width; if they need less, each keeps its own width.
 */
function strips(weights, sides, least) {
  const found = [];
  const used = new Float64Array(weights.columns);
  for (let row = 0; row < weights.rows; row++) {
    for (let column = 0; column < weights.columns; column++) {
      const weight = weights.at(row, column);
      if (weight < Math.max(least, 0.005)) continue;
      found.push({ row, column, weight });
      used[column] += weight;
    }
  }
  return [...lower(upper(found, used, sides), sides)].map((strip) => ({ ...strip, d: shape(strip) }));
}

function upper(found, used, sides) {
  const taken = new Float64Array(used.length);
  const x = (strip) => sides.written.slots[strip.row].x;
  return [...found].sort((a, b) => x(a) - x(b)).map((strip) => {
    const { x: left, width } = sides.source.slots[strip.column];
    const scale = width / Math.max(1, used[strip.column]);
    const start = left + (width - used[strip.column] * scale) / 2 + taken[strip.column];
    taken[strip.column] += strip.weight * scale;
    return { ...strip, top: [start, start + strip.weight * scale] };
  });
}

function lower(found, sides) {
  const sums = new Map();
  for (const { row, weight } of found) sums.set(row, (sums.get(row) ?? 0) + weight);
  const taken = new Map();
  const x = (strip) => sides.source.slots[strip.column].x;
  return [...found].sort((a, b) => x(a) - x(b)).map((strip) => {
    const slot = sides.written.slots[strip.row];
    const before = taken.get(strip.row) ?? (slot.width * (1 - Math.min(1, sums.get(strip.row)))) / 2;
    taken.set(strip.row, before + strip.weight * slot.width);
    return { ...strip, bottom: [slot.x + before, slot.x + before + strip.weight * slot.width] };
  });
}

function shape({ top, bottom }) {
  const middle = (TOP + BOTTOM) / 2;
  return `M${top[0]} ${TOP}C${top[0]} ${middle} ${bottom[0]} ${middle} ${bottom[0]} ${BOTTOM}L${bottom[1]} ${BOTTOM}C${bottom[1]} ${middle} ${top[1]} ${middle} ${top[1]} ${TOP}Z`;
}
