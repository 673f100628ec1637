// A matrix as shaded cells: SVG elements for up to 64 tokens, a canvas with panning and zooming for more.
import { inkOn, sequential } from "../colour.js";
import { element } from "../elements.js";
import { drawing, group, rect, sight, text, textWidth, tokenText, widest } from "../svg.js";
import { shortened, visible } from "../tokens.js";
import { zoomable } from "./zoomable.js";
import { inDrawing, stage } from "./stage.js";

/** Up to so many tokens a side each cell is an element. */
export const FEW = 64;
const LARGEST = 72; // pixels of a cell
const SLANT = -55; // degrees by which the names of columns are rotated
const LEAN = Math.cos((SLANT * Math.PI) / 180); // the horizontal extent of a rotated name, as a share of its width

/**
 * A heat map with a pointer.
 * @param {object} options
 * @param {Matrix} options.matrix  of weights in 0..1
 * @param {object} options.rows  an axis: {title, short, tokens, special, after} (weights.js)
 * @param {object} options.columns
 * @param {string} options.label  its name
 * @param {(cell) => string} options.say  the sentence under the map about a cell
 * @param {(cell | null) => void} [options.onPoint]  called for each cell under the pointer
 * @param {(cell) => void} [options.onChoose]
 * @param {(cell) => void} [options.onOpen]
 * @param {{row, column} | null} [options.at]
 * @param {(value: number) => string} [options.colour]  of a value; by default the sequential scale of weights
 * @param {number} [options.signed]  for the diverging scale: the largest absolute value
 * @param {number} [options.width]  available, in pixels
 * @returns {HTMLElement} with `show(matrix)` and `point(cell)` on it
 */
export function heatmap(options) {
  const many = Math.max(options.matrix.rows, options.matrix.columns) > FEW;
  const map = many ? zoomable(options) : cells(options);
  const keys = many ? "; plus and minus zoom, 0 shows the whole" : "";
  const opens = options.onOpen ? ", Enter opens the cell" : "";
  const root = stage({
    label: `${options.label}. The arrow keys move the cell${opens}${keys}.`,
    chart: map.chart,
    size: { rows: options.matrix.rows, columns: options.matrix.columns },
    locate: map.locate,
    onPoint: (cell) => {
      map.point(cell);
      options.onPoint?.(cell);
      return cell ? options.say(cell) : "";
    },
    onChoose: (cell) => {
      map.reveal?.(cell);
      options.onChoose?.(cell);
    },
    onOpen: options.onOpen,
    at: options.at ?? null,
  });
  map.attach?.(root.field);
  root.show = map.show;
  return map.tools ? Object.assign(root, { tools: map.tools }) : root;
}

function cells({ matrix, rows: named, columns, colour = sequential, width = 720 }) {
  const rows = width < 480 ? { ...named, after: null } : named; // a phone has no space for what was read
  const place = layout({ matrix, rows, columns, width });
  const squares = group({ class: "cells" });
  const marks = [];
  for (let row = 0; row < matrix.rows; row++) {
    for (let column = 0; column < matrix.columns; column++) {
      const square = rect(place.x(column), place.y(row), place.cell - place.gap, place.cell - place.gap, { rx: place.cell > 18 ? 2 : 0 });
      marks.push(square);
      squares.append(square);
    }
  }
  const rowNames = rows.tokens.map((_, row) => rowName(rows, row, place));
  const columnNames = columns.tokens.map((_, column) => columnName(columns, column, place));
  const cross = group({ class: "crosshair", visibility: "hidden" });
  const band = { row: rect(0, 0, 0, 0), column: rect(0, 0, 0, 0), cell: rect(0, 0, 0, 0, { class: "cell" }) };
  cross.append(band.row, band.column, band.cell);
  const titles = group({},
    text(place.left - 8, place.top - 10, `${rows.short ?? rows.title} ↓`, { anchor: "end", class: "soft" }),
    text(place.left, 13, `${columns.title} →`, { class: "soft" }));
  const chart = drawing(place.width, place.height, titles, group({}, rowNames), group({}, columnNames), squares, cross);
  let pointed = null;

  function show(next) {
    for (let i = 0; i < marks.length; i++) marks[i].setAttribute("fill", colour(next.values[i]));
  }

  function point(cell) {
    if (pointed) {
      rowNames[pointed.row].classList.remove("on");
      columnNames[pointed.column].classList.remove("on");
    }
    pointed = cell;
    cross.setAttribute("visibility", cell ? "visible" : "hidden");
    if (!cell) return;
    rowNames[cell.row].classList.add("on");
    columnNames[cell.column].classList.add("on");
    const [x, y, size] = [place.x(cell.column), place.y(cell.row), place.cell - place.gap];
    put(band.row, place.left, y, matrix.columns * place.cell - place.gap, size);
    put(band.column, x, place.top, size, matrix.rows * place.cell - place.gap);
    put(band.cell, x, y, size, size);
  }

  function locate(event) {
    const { x, y } = inDrawing(chart, event);
    const column = Math.floor((x - place.left) / place.cell);
    const row = Math.floor((y - place.top) / place.cell);
    return row >= 0 && column >= 0 && row < matrix.rows && column < matrix.columns ? { row, column } : null;
  }

  show(matrix);
  return { chart, show, point, locate };
}

/** Cells as large as the width and the window's height allow, from 15 to 72 pixels; a wider map scrolls. */
function layout({ matrix, rows, columns, width }) {
  const left = 14 + Math.max(textWidth(`${rows.short ?? rows.title} ↓`, "12px system-ui") + 4, rowNameWidth(rows));
  const tail = Math.min(40, widest(columns.tokens.slice(-1)) * LEAN);
  const top = 34 + Math.ceil(widest(columns.tokens) * 0.82);
  const high = Math.max(34, Math.floor((sight() - top) / matrix.rows)); // smaller cells than 34 pixels are harder to read than to scroll
  const cell = Math.max(15, Math.min(LARGEST, high, Math.floor((width - left - tail - 4) / matrix.columns)));
  return {
    cell, left, top,
    gap: cell > 18 ? 1.5 : 0.5,
    width: Math.ceil(Math.max(left + matrix.columns * cell, ...columns.tokens.map((token, i) => left + (i + 0.5) * cell + LEAN * widest([token]))) + 8),
    height: top + matrix.rows * cell + 4,
    x: (column) => left + column * cell,
    y: (row) => top + row * cell,
  };
}

function rowNameWidth(rows) {
  return widest(rows.tokens) + (rows.after ? widest(rows.after, 8) + 22 : 0);
}

function rowName(rows, row, place) {
  const y = place.y(row) + place.cell / 2 + 4.5;
  const name = tokenText(place.left - 8, y, rows.tokens[row], { anchor: "end", special: rows.special[row] });
  if (!rows.after) return name;
  const before = place.left - 8 - textWidth(shortened(rows.tokens[row])) - 11;
  return group({ class: "name" }, text(before, y, `${shortened(rows.after[row], 8)} ▸`, { anchor: "end", class: "soft token" }), name);
}

function columnName(columns, column, place) {
  const x = place.x(column) + place.cell / 2 + 4;
  return tokenText(x, place.top - 6, columns.tokens[column], { turn: SLANT, special: columns.special[column] });
}

function put(node, x, y, width, height) {
  node.setAttribute("x", x);
  node.setAttribute("y", y);
  node.setAttribute("width", Math.max(0, width));
  node.setAttribute("height", Math.max(0, height));
}

/** The name of a row in a sentence: "<written> after <read>", or the token alone. */
export function rowWords(axis, row) {
  const own = `“${visible(axis.tokens[row])}”`;
  return axis.after ? `${own} (written after “${visible(axis.after[row])}”)` : own;
}

/** Background and text colour of a weight, for shaded tokens. */
export function shades() {
  return { colour: (value) => sequential(value), ink: inkOn };
}

/** The colour scale as a small bar with its ends named. */
export function legend({ least = "0", most = "1" }) {
  const steps = [0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => sequential(share));
  const bar = element("span", { class: "ramp", aria: { hidden: "true" }, style: { background: `linear-gradient(to right, ${steps.join(", ")})` } });
  return element("span", { class: "scale" }, element("span", {}, least), bar, element("span", {}, most));
}
