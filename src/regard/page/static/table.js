// The table of a chart's numbers, of any size, navigated with the arrow keys.
//
// A grid with one cell in the tab order (roving tabindex). Only a window of rows and columns is in the page at a
// time: a map of 512 x 512 weights is 262 144 cells. The arrow keys move the window along.
import { element, fill } from "./elements.js";
import { number } from "./numbers.js";
import { token, visible } from "./tokens.js";

const MOST = { rows: 40, columns: 24 };
const STEPS = {
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
  PageUp: [-MOST.rows, 0], PageDown: [MOST.rows, 0],
};

/**
 * A table. `columns`: texts, or {label, kind: "text"|"token"|"number", digits, labelKind: "token"}; the first column
 * names its rows. `rows`: arrays of cells: texts, numbers, or null for no value.
 * `onMove(row, column)` is called with the reader's cell, not counting the naming column; `selected` is the first cell.
 * @returns {HTMLElement} with `move(row, column)` on it
 */
export function table({ label, columns, rows, onMove = null, selected = [0, 0] }) {
  const heads = columns.map((column) => (typeof column === "string" ? { label: column } : column));
  const body = element("tbody");
  const head = element("thead");
  const said = element("p", { class: "said", aria: { live: "polite" } });
  const where = { row: selected[0], column: selected[1] }; // of the cells, without the naming column
  const size = { rows: rows.length, columns: heads.length - 1 };
  const first = { row: 0, column: 0 };

  const grid = element(
    "table",
    {
      role: "grid", class: "data",
      aria: { label, rowcount: size.rows + 1, colcount: size.columns + 1, readonly: "true" },
      on: { keydown: onKey, click: onClick, focusin: onFocus },
    },
    head, body,
  );

  function draw() {
    first.row = shifted(first.row, where.row, MOST.rows, size.rows);
    first.column = shifted(first.column, where.column, MOST.columns, size.columns);
    const shown = range(first.column, Math.min(size.columns, first.column + MOST.columns));
    fill(head, element("tr", { aria: { rowindex: 1 } }, heading(heads[0], 1), shown.map((i) => heading(heads[i + 1], i + 2))));
    const lines = range(first.row, Math.min(size.rows, first.row + MOST.rows));
    fill(
      body,
      lines.map((r) =>
        element(
          "tr",
          { aria: { rowindex: r + 2 } },
          element("th", { scope: "row", aria: { colindex: 1 } }, shownCell(rows[r][0], heads[0])),
          shown.map((c) =>
            element(
              "td",
              {
                class: typeof rows[r][c + 1] === "number" ? "number" : null,
                tabindex: r === where.row && c === where.column ? 0 : -1,
                aria: { colindex: c + 2 },
                data: { row: r, column: c },
              },
              shownCell(rows[r][c + 1], heads[c + 1]),
            ),
          ),
        ),
      ),
    );
  }

  function heading(column, index) {
    const name = column.labelKind === "token" ? token(column.label) : column.label;
    return element("th", { scope: "col", aria: { colindex: index } }, name);
  }

  function move(row, column, { focus = false } = {}) {
    const next = {
      row: Math.min(size.rows - 1, Math.max(0, row)),
      column: Math.min(size.columns - 1, Math.max(0, column)),
    };
    if (next.row < 0 || next.column < 0) return;
    const inside = cellAt(next.row, next.column);
    cellAt(where.row, where.column)?.setAttribute("tabindex", "-1");
    Object.assign(where, next);
    if (inside) inside.setAttribute("tabindex", "0");
    else draw();
    if (!focus) return;
    cellAt(where.row, where.column).focus();
    said.textContent = sentence(rows[where.row], heads, where.column);
    onMove?.(where.row, where.column);
  }

  function cellAt(row, column) {
    return body.querySelector(`td[data-row="${row}"][data-column="${column}"]`);
  }

  function onKey(event) {
    const step = STEPS[event.key];
    let [row, column] = [where.row, where.column];
    if (step) [row, column] = [row + step[0], column + step[1]];
    else if (event.key === "Home") [row, column] = event.ctrlKey ? [0, 0] : [row, 0];
    else if (event.key === "End") [row, column] = event.ctrlKey ? [size.rows - 1, size.columns - 1] : [row, size.columns - 1];
    else return;
    if (event.altKey || event.metaKey) return; // the browser's own
    event.preventDefault();
    move(row, column, { focus: true });
  }

  function onClick(event) {
    const cell = event.target.closest("td");
    if (cell) move(Number(cell.dataset.row), Number(cell.dataset.column), { focus: true });
  }

  function onFocus(event) {
    if (event.target.matches("td")) said.textContent = sentence(rows[where.row], heads, where.column);
  }

  draw();
  const sizes = `${size.rows} rows, ${size.columns} columns; the arrow keys move from cell to cell.`;
  const root = element("div", { class: "table" }, element("p", { class: "hint" }, sizes), said,
    element("div", { class: "scroll" }, grid));
  root.move = move;
  return root;
}

function shifted(first, wanted, most, size) {
  if (wanted < first) return wanted;
  if (wanted >= first + most) return Math.max(0, Math.min(size - most, wanted));
  return first;
}

function range(from, to) {
  return Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
}

function shownCell(value, { kind, digits = 3 }) {
  if (kind === "token" && typeof value === "string") return token(value);
  return words(value, digits);
}

function words(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : number(value, digits);
  return visible(String(value));
}

function sentence(row, heads, column) {
  const { label, digits } = heads[column + 1];
  return `${visible(String(row[0]))}, ${visible(String(label))}: ${words(row[column + 1], digits)}`;
}
