// A chart with its caption, the table of its numbers, and buttons to save it.
import { capture, png } from "./capture.js";
import { button, element, fill } from "./elements.js";
import { csv, download } from "./export.js";
import { table } from "./table.js";

/**
 * A figure.
 * @param {object} options
 * @param {string} options.name  of exported files, without an ending
 * @param {string} options.caption  what the chart shows, in one sentence
 * @param {Element} options.chart  an SVG drawing, a canvas, or an element that holds one of them
 * @param {() => {columns: Array, rows: Array, onMove?: Function, selected?: number[]}} options.table  see table.js;
 *   called when the reader opens it or saves the CSV
 * @param {() => SVGElement | Promise<SVGElement>} [options.svg]  the drawing to save if the chart is a canvas, on white
 * @returns {HTMLElement} with `refresh(chart)` on it, which replaces the chart and its table
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
  const drawn = async () => (await svg?.()) ?? holder.querySelector("svg.chart, canvas.chart") ?? holder.querySelector("svg, canvas");

  function show() {
    fill(place, table({ label: caption, ...numbers() }));
  }

  async function save(kind) {
    try {
      await SAVERS[kind](name, { captured: async () => capture(await drawn(), holder), numbers });
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

/** Makes the holder focusable, to scroll it by keys, while the drawing is wider and has nothing focusable in it. */
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
  async svg(name, { captured }) {
    download(`${name}.svg`, (await captured()).svg, "image/svg+xml");
  },
  async png(name, { captured }) {
    download(`${name}.png`, await png(await captured()));
  },
  async csv(name, { numbers }) {
    const { columns, rows } = numbers();
    const head = columns.map((column) => (typeof column === "string" ? column : column.label));
    download(`${name}.csv`, csv([head, ...rows]), "text/csv;charset=utf-8");
  },
};
