// A chart with a pointer: mouse, touch and arrow keys move one point over its rows and columns.
import { element } from "../elements.js";
import { token } from "../tokens.js";
import { runsFromRight } from "./weights.js";

const FAINTEST = 0.01; // the least weight that is shaded on a token
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * A chart with a pointer. Its drawing is hidden from screen readers; the line under it describes the cell at the point, and
 * the figure's table has the same numbers.
 * @param {object} options
 * @param {string} options.label  its name, and the keys that move the point
 * @param {Element} options.chart
 * @param {{rows: number, columns: number}} options.size
 * @param {(event: PointerEvent) => {row: number, column: number} | null} options.locate
 * @param {(cell: {row: number, column: number} | null) => string} options.onPoint  draws the point; returns the line under the chart
 * @param {(cell) => void} [options.onChoose]  after a click or a key
 * @param {(cell) => void} [options.onOpen]  after Enter or a double click
 * @param {{row: number, column: number}} [options.at]  the chosen point, shown when the pointer leaves the chart
 * @param {(key: string, from: cell | null) => cell | null} [options.walk]  the cell that an arrow key leads to, if the chart is not a grid
 * @param {string} [options.class]  of the field, besides "stage"
 * @returns {HTMLElement} with `point(cell)`, which chooses a cell, and `size` on it
 */
export function stage({ label, chart, size, locate, onPoint, onChoose = null, onOpen = null, at = null, walk = null, ...more }) {
  let chosen = at;
  let under = null; // the cell under the pointer
  const said = element("p", { class: "said reading", aria: { live: "off" } });
  const field = element(
    "div",
    {
      class: `stage ${more.class ?? ""}`, tabindex: 0, role: "application", aria: { label },
      on: {
        pointermove: (event) => hover(locate(event)),
        pointerleave: () => hover(null),
        click: (event) => choose(locate(event)),
        dblclick: (event) => open(locate(event)),
        keydown: onKey,
      },
    },
    chart,
  );
  const root = element("div", { class: "pointed" }, field, said);
  root.size = size;
  root.field = field;
  root.point = (cell) => {
    chosen = cell;
    show(cell, false);
  };

  function show(cell, aloud) {
    said.setAttribute("aria-live", aloud ? "polite" : "off");
    said.textContent = onPoint(cell);
  }

  function hover(cell) {
    if (same(cell, under)) return;
    under = cell;
    show(cell ?? chosen, false);
  }

  function choose(cell, aloud = false) {
    if (!cell) return;
    chosen = cell;
    show(cell, aloud);
    onChoose?.(cell);
  }

  function open(cell) {
    if (cell) onOpen?.(cell);
  }

  function onKey(event) {
    if (event.altKey || event.metaKey) return;
    const next = walk && event.key.startsWith("Arrow") ? walk(event.key, chosen) : moved(event, chosen, root.size);
    if (next) choose(next, true);
    else if (event.key === "Escape" && chosen) root.point(null);
    else if (event.key === "Enter" && onOpen) open(chosen);
    else return;
    event.preventDefault();
  }

  show(chosen, false);
  return root;
}

function moved(event, from, size) {
  const last = { row: size.rows - 1, column: size.columns - 1 };
  if (last.row < 0 || last.column < 0) return null;
  const { row, column } = from ?? { row: 0, column: 0 };
  if (event.key === "Home") return event.ctrlKey ? { row: 0, column: 0 } : { row, column: 0 };
  if (event.key === "End") return event.ctrlKey ? last : { row, column: last.column };
  const step = STEPS[event.key];
  if (!step) return null;
  if (!from) return { row, column };
  const within = (value, most) => Math.min(most, Math.max(0, value));
  return { row: within(row + step[0], last.row), column: within(column + step[1], last.column) };
}

function same(first, second) {
  return first === second || JSON.stringify(first) === JSON.stringify(second);
}

function paint(item, background, ink) {
  item.style.background = background;
  item.style.color = ink;
}

/** The place of a pointer event in the units of an SVG drawing's view box. */
export function inDrawing(drawing, event) {
  const box = drawing.getBoundingClientRect();
  const { width, height } = drawing.viewBox.baseVal;
  return { x: ((event.clientX - box.left) / box.width) * width, y: ((event.clientY - box.top) / box.height) * height };
}

/**
 * Text whose tokens are shaded by weights; one of them is marked. The arrow keys move the mark.
 * `onChoose(index)`, `onHover(index or null)`. On the result: `shade(weights, colour, ink)`, `mark(index)`.
 */
export function tokenLine({ axis, label, onChoose, onHover = null }) {
  let marked = 0;
  let shaded = new Set(); // only these are updated: few tokens of a long text have weight
  const items = axis.tokens.map((text, index) =>
    element(
      "span",
      { role: "option", class: "piece", tabindex: -1, aria: { selected: "false" }, data: { index } },
      token(text, { special: axis.special[index] }),
    ),
  );
  const indexOf = (event) => {
    const item = event.target.closest(".piece");
    return item ? Number(item.dataset.index) : null;
  };
  const list = element(
    "div",
    {
      role: "listbox", class: "token-line", dir: runsFromRight(axis.tokens) ? "rtl" : "ltr", aria: { label, orientation: "horizontal" },
      on: {
        click: (event) => indexOf(event) !== null && choose(indexOf(event)),
        pointerover: (event) => onHover?.(indexOf(event)),
        pointerleave: () => onHover?.(null),
        keydown: onKey,
      },
    },
    items,
  );
  const root = element("div", { class: "token-field" }, element("p", { class: "hint" }, label), list);

  function choose(index) {
    root.mark(index);
    items[index].focus();
    onChoose(index);
  }

  function onKey(event) {
    const turned = getComputedStyle(list).direction === "rtl" ? -1 : 1;
    const steps = { ArrowLeft: -turned, ArrowRight: turned, ArrowUp: -1, ArrowDown: 1, Home: -items.length, End: items.length };
    const step = steps[event.key];
    if (!step || event.altKey || event.metaKey) return;
    event.preventDefault();
    choose(Math.min(items.length - 1, Math.max(0, marked + step)));
  }

  root.mark = (index) => {
    items[marked]?.setAttribute("aria-selected", "false");
    items[marked]?.setAttribute("tabindex", "-1");
    marked = index ?? 0;
    items[marked]?.setAttribute("tabindex", "0");
    if (index !== null) items[marked]?.setAttribute("aria-selected", "true");
  };
  root.shade = (weights, colour, ink) => {
    const next = new Set();
    weights?.forEach((weight, index) => weight >= FAINTEST && next.add(index));
    for (const index of shaded) if (!next.has(index)) paint(items[index], "", "");
    for (const index of next) paint(items[index], colour(weights[index]), ink(colour(weights[index])));
    shaded = next;
  };
  root.mark(0);
  return root;
}
