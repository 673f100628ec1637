// A chart with all that belongs to it: caption, table of its numbers, and ways to take it away.
import { PAPER, theme } from "./colour.js";
import { button, element, fill } from "./elements.js";
import { csv, download, png, svgText } from "./export.js";
import { table } from "./table.js";

/**
 * A figure.
 * @param {object} options
 * @param {string} options.name  of exported files, without an ending
 * @param {string} options.caption  what is seen, in one sentence
 * @param {Element} options.chart  an SVG drawing, a canvas, or an element that holds one of them
 * @param {() => {columns: Array, rows: Array, onMove?: Function, selected?: number[]}} options.table  see table.js;
 *   called when the reader opens it or takes the CSV
 * @param {() => SVGElement} [options.svg]  the drawing to save where the chart is a canvas
 * @returns {HTMLElement} with `refresh(chart)` on it: another chart in its place, the table made anew
 */
export function figure({ name, caption, chart, table: numbers, svg = null }) {
  const holder = element("div", { class: "drawing" }, chart);
  const words = element("figcaption", {}, caption);
  const place = element("div");
  const behind = element(
    "details",
    { on: { toggle: () => behind.open && show() } },
    element("summary", {}, "The numbers as a table"),
    place,
  );
  const note = element("span", { class: "said", role: "status" });
  const drawn = () => svg?.() ?? holder.querySelector("svg.chart, canvas.chart") ?? holder.querySelector("svg, canvas");

  function show() {
    fill(place, table({ label: caption, ...numbers() }));
  }

  async function save(kind) {
    try {
      await SAVERS[kind](name, { drawn, numbers, paper: PAPER[theme(root)], holder });
      note.textContent = `${name}.${kind} saved`;
    } catch (problem) {
      note.textContent = `not saved: ${problem.message}`;
    }
  }

  const takers = Object.keys(SAVERS).map((kind) =>
    button(kind.toUpperCase(), () => save(kind), { class: "quiet", aria: { label: `Save as ${kind.toUpperCase()}` } }),
  );
  reachable(holder, () => words.textContent);
  const root = element(
    "figure",
    {},
    words, holder,
    element("div", { class: "behind" }, behind, element("div", { class: "takers" }, note, ...takers)),
  );
  root.refresh = (next, sentence = null) => {
    if (next) fill(holder, next);
    if (sentence) words.textContent = sentence;
    if (behind.open) show();
  };
  return root;
}

/** While the drawing is wider than its place and holds nothing that takes the keyboard, its place does: to scroll. */
function reachable(holder, label) {
  new ResizeObserver(() => {
    const needed = holder.scrollWidth > holder.clientWidth && !holder.querySelector("[tabindex='0'], button, a[href], input, select");
    const traits = { tabindex: "0", role: "group", "aria-label": label() };
    for (const [name, value] of Object.entries(traits)) {
      if (needed) holder.setAttribute(name, value);
      else holder.removeAttribute(name);
    }
  }).observe(holder);
}

const SAVERS = {
  async svg(name, { drawn, paper, holder }) {
    const drawing = drawn();
    // A canvas without a drawing of its own is saved as a picture inside an SVG.
    const text = drawing instanceof SVGElement ? mounted(drawing, holder, (node) => svgText(node, paper)) : framed(drawing);
    download(`${name}.svg`, text, "image/svg+xml");
  },
  async png(name, { drawn, paper, holder }) {
    const drawing = drawn();
    const blob = drawing instanceof SVGElement
      ? await mounted(drawing, holder, (node) => png(node, paper))
      : await png(drawing, paper);
    download(`${name}.png`, blob);
  },
  async csv(name, { numbers }) {
    const { columns, rows } = numbers();
    const head = columns.map((column) => (typeof column === "string" ? column : column.label));
    download(`${name}.csv`, csv([head, ...rows]), "text/csv;charset=utf-8");
  },
};

/** What `work` makes of a drawing while it is in the page, where styles reach it. */
function mounted(drawing, holder, work) {
  if (drawing.isConnected) return work(drawing);
  drawing.style.position = "absolute";
  drawing.style.visibility = "hidden";
  holder.append(drawing);
  const made = work(drawing);
  Promise.resolve(made).finally(() => drawing.remove());
  return made;
}

function framed(drawing) {
  const { width, height } = drawing;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">` +
    `<image width="${width}" height="${height}" href="${drawing.toDataURL("image/png")}"/></svg>`
  );
}
