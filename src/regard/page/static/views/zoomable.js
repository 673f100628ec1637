// A large matrix on a canvas: drawn once with one pixel a cell, then moved and scaled as an image.
import { moving, pixels } from "../canvas.js";
import { divergingTable, sequentialTable, theme } from "../colour.js";
import { button, element } from "../elements.js";
import { sight } from "../svg.js";
import { shortened } from "../tokens.js";

const GUTTER = { left: 104, top: 84 };
const LARGEST = 40; // pixels of a cell
const FONT = "12px system-ui, sans-serif";

/** The chart of a matrix of more than 64 tokens: {chart, tools, show, point, locate, reveal, attach}. */
export function zoomable({ matrix, rows, columns, signed = null, width = 720 }) {
  const height = Math.min(Math.max(620, sight()), Math.max(320, Math.round(width * 0.8)));
  const size = { width: Math.max(280, Math.round(Math.min(width, 1.6 * height))), height };
  const plot = { width: size.width - GUTTER.left, height: size.height - GUTTER.top };
  const chart = moving(size.width, size.height, draw, { opaque: true });
  const whole = Math.min(plot.width / matrix.columns, plot.height / matrix.rows);
  const view = { x: 0, y: 0, cell: whole }; // x, y: the cell at the top left; cell: its size in pixels
  const pictures = { paper: null, whole: null, small: null }; // small: for zoom levels below one pixel a cell
  let shown = matrix;
  let pointed = null;

  function draw(pen) {
    const ink = canvasInks(chart);
    if (pictures.paper !== theme(chart)) paint(theme(chart));
    pen.fillStyle = ink.paper;
    pen.fillRect(0, 0, size.width, size.height);
    pen.save();
    pen.beginPath();
    pen.rect(GUTTER.left, GUTTER.top, plot.width, plot.height);
    pen.clip();
    pen.imageSmoothingEnabled = false;
    pen.drawImage(view.cell < 1 ? pictures.small : pictures.whole, GUTTER.left - view.x * view.cell, GUTTER.top - view.y * view.cell, matrix.columns * view.cell, matrix.rows * view.cell);
    if (pointed) cross(pen, ink);
    pen.restore();
    names(pen, ink);
  }

  function cross(pen, ink) {
    const [x, y] = [GUTTER.left + (pointed.column - view.x) * view.cell, GUTTER.top + (pointed.row - view.y) * view.cell];
    const cell = Math.max(2, view.cell);
    pen.strokeStyle = ink.accent;
    pen.lineWidth = 1;
    const right = GUTTER.left + (matrix.columns - view.x) * view.cell; // the edges of the matrix or of the plot, whichever comes first
    const foot = GUTTER.top + (matrix.rows - view.y) * view.cell;
    pen.strokeRect(GUTTER.left - 2, y - 0.5, right - GUTTER.left + 4, cell + 1);
    pen.strokeRect(x - 0.5, GUTTER.top - 2, cell + 1, foot - GUTTER.top + 4);
    pen.lineWidth = 2;
    pen.strokeRect(x - 1, y - 1, cell + 2, cell + 2);
  }

  function names(pen, ink) {
    pen.font = FONT;
    pen.textBaseline = "middle";
    const every = Math.max(1, Math.ceil(14 / view.cell));
    for (const { index, at } of along(view.y, matrix.rows, plot.height, every, pointed?.row)) {
      label(pen, rows, index, GUTTER.left - 6, GUTTER.top + at, 0, "right", ink, index === pointed?.row);
    }
    for (const { index, at } of along(view.x, matrix.columns, plot.width, every, pointed?.column)) {
      label(pen, columns, index, GUTTER.left + at, GUTTER.top - 6, -Math.PI / 2, "left", ink, index === pointed?.column);
    }
  }

  function* along(from, count, room, every, always) {
    for (let index = Math.max(0, Math.floor(from)); index < count; index++) {
      const at = (index + 0.5 - from) * view.cell;
      if (at < 0) continue;
      if (at > room) return;
      const near = always !== undefined && index !== always && Math.abs(index - always) * view.cell < 14;
      if (index === always || (index % every === 0 && !near)) yield { index, at };
    }
  }

  function label(pen, axis, index, x, y, turn, align, ink, strong) {
    pen.save();
    pen.translate(x, y);
    pen.rotate(turn);
    pen.textAlign = align;
    pen.direction = "ltr";
    pen.fillStyle = strong ? ink.accent : axis.special[index] ? ink.soft : ink.ink;
    if (strong) pen.font = `600 ${FONT}`;
    pen.fillText(shortened(axis.tokens[index], 12), 0, 0, align === "right" ? GUTTER.left - 10 : GUTTER.top - 10);
    pen.restore();
  }

  function bounded() {
    view.cell = Math.min(LARGEST, Math.max(whole, view.cell));
    view.x = Math.min(Math.max(0, view.x), Math.max(0, matrix.columns - plot.width / view.cell));
    view.y = Math.min(Math.max(0, view.y), Math.max(0, matrix.rows - plot.height / view.cell));
    chart.ask();
  }

  /** Zooms around a point of the plot, in pixels from its corner. */
  function zoom(factor, x = plot.width / 2, y = plot.height / 2) {
    const [column, row] = [view.x + x / view.cell, view.y + y / view.cell];
    view.cell = Math.min(LARGEST, Math.max(whole, view.cell * factor));
    view.x = column - x / view.cell;
    view.y = row - y / view.cell;
    bounded();
  }

  function inPlot(event) {
    const box = chart.getBoundingClientRect();
    return { x: event.clientX - box.left - GUTTER.left, y: event.clientY - box.top - GUTTER.top };
  }

  function locate(event) {
    const { x, y } = inPlot(event);
    if (x < 0 || y < 0) return null;
    const [column, row] = [Math.floor(view.x + x / view.cell), Math.floor(view.y + y / view.cell)];
    return row < matrix.rows && column < matrix.columns ? { row, column } : null;
  }

  /** Moves the view until the cell is visible. */
  function reveal({ row, column }) {
    const [wide, high] = [plot.width / view.cell, plot.height / view.cell];
    if (column < view.x || column >= view.x + wide - 1) view.x = column - wide / 2;
    if (row < view.y || row >= view.y + high - 1) view.y = row - high / 2;
    bounded();
  }

  function paint(paper) {
    const table = signed ? divergingTable(paper) : sequentialTable(paper);
    const painted = ({ values, rows: height, columns: across }) => {
      const data = signed ? values.map((value) => 0.5 + value / (2 * signed)) : values;
      return pixels({ data, shape: [height, across] }, table);
    };
    pictures.paper = paper;
    pictures.whole = painted(shown);
    pictures.small = painted(shown.pooled(Math.min(plot.width, plot.height)));
  }

  function show(next) {
    shown = next;
    pictures.paper = null;
    chart.ask();
  }

  show(matrix);
  return {
    chart, locate, reveal, show,
    tools: element("div", { class: "zoom" },
      button("+", () => zoom(1.5), { aria: { label: "Zoom in" } }),
      button("−", () => zoom(1 / 1.5), { aria: { label: "Zoom out" } }),
      button("Whole", () => zoom(0)),
      element("span", { class: "hint" }, "drag to move; Ctrl and the wheel, or two fingers, to zoom")),
    attach: (field) => gestures(field, { zoom, inPlot, pan: (x, y) => ((view.x -= x / view.cell), (view.y -= y / view.cell), bounded()) }),
    point(cell) {
      pointed = cell;
      chart.ask();
    },
  };
}

/** Colours for a canvas {ink, paper, accent, soft}, from the canvas's own style: a canvas cannot read custom properties that hold light-dark(). */
export function canvasInks(node) {
  const { color: ink, backgroundColor: paper, borderTopColor: accent, textDecorationColor: soft } = getComputedStyle(node);
  return { ink, paper, accent, soft };
}

/** Drag to move, two fingers or the wheel to zoom, and + - 0 on the keyboard. */
function gestures(field, { zoom, pan, inPlot }) {
  const fingers = new Map();
  let dragged = 0; // pixels, since a finger came down
  field.classList.add("movable");
  field.addEventListener("click", (event) => dragged > 4 && event.stopImmediatePropagation(), { capture: true });
  field.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== field) return; // the page's own scrolling
    event.preventDefault();
    const { x, y } = inPlot(event);
    zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)), x, y);
  }, { passive: false });
  field.addEventListener("pointerdown", (event) => {
    if (!fingers.size) dragged = 0;
    fingers.set(event.pointerId, event);
    field.setPointerCapture(event.pointerId);
  });
  field.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const other = [...fingers.values()].find((finger) => finger.pointerId !== event.pointerId);
    if (other) {
      const { x, y } = inPlot(other);
      zoom(apart(event, other) / (apart(before, other) || 1), x, y);
    } else {
      dragged += apart(event, before);
      pan(event.clientX - before.clientX, event.clientY - before.clientY);
    }
    fingers.set(event.pointerId, event);
  });
  for (const name of ["pointerup", "pointercancel"]) field.addEventListener(name, (event) => fingers.delete(event.pointerId));
  field.addEventListener("keydown", (event) => {
    const factor = { "+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 0 }[event.key];
    if (factor === undefined || event.ctrlKey || event.metaKey) return; // Ctrl +: the browser's own zoom
    event.preventDefault();
    zoom(factor);
  });
}

function apart(first, second) {
  return Math.hypot(first.clientX - second.clientX, first.clientY - second.clientY);
}
