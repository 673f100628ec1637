// The head view's lines of more than 64 tokens: a fixed canvas in a scrolled field, which draws the visible part.
import { moving } from "../canvas.js";
import { headColour, theme } from "../colour.js";
import { element } from "../elements.js";
import { canvasDash, headDash } from "../strokes.js";
import { shortened } from "../tokens.js";
import { canvasInks } from "./zoomable.js";

const STEP = 20;
const HEIGHT = 600;
const FONT = "13px system-ui, sans-serif";

/** Paints lines between two long lists: {chart, update(lines), point(token), locate(event), reveal, attach}. */
export function manyLines({ axes, width }) {
  const count = Math.max(axes.rows.tokens.length, axes.columns.tokens.length);
  const [left, right] = width < 480 ? [100, width - 100] : [130, width - 130];
  const canvas = moving(width, HEIGHT, draw);
  const chart = element("div", { class: "long", style: { height: `${count * STEP}px` } }, canvas);
  let lines = [];
  let pointed = null;
  let field = null;

  function draw(pen) {
    const [top, ink, paper] = [field?.scrollTop ?? 0, canvasInks(canvas), theme(canvas)];
    const y = (index) => (index + 0.5) * STEP - top;
    const inSight = (index) => y(index) > -STEP && y(index) < HEIGHT + STEP;
    const own = ({ row, column }) => (pointed?.side === "rows" ? row : column) === pointed?.index;
    for (const one of lines) {
      if (!inSight(one.row) && !inSight(one.column)) continue;
      if (pointed && !own(one)) continue;
      pen.globalAlpha = Math.min(1, (pointed ? 0.1 : 0.02) + one.weight * (pointed ? 1 : 0.7));
      pen.strokeStyle = headColour(one.head, paper);
      pen.setLineDash(pointed ? canvasDash(headDash(one.head)) : []); // among thousands of lines dashes are invisible
      pen.lineWidth = 0.8 + 2.6 * one.weight;
      pen.beginPath();
      pen.moveTo(left, y(one.row));
      pen.bezierCurveTo(width / 2, y(one.row), width / 2, y(one.column), right, y(one.column));
      pen.stroke();
    }
    pen.globalAlpha = 1;
    names(pen, "rows", left - 8, "right", y, ink);
    names(pen, "columns", right + 8, "left", y, ink);
  }

  function names(pen, side, x, align, y, ink) {
    pen.textAlign = align;
    pen.textBaseline = "middle";
    const first = Math.max(0, Math.floor((field?.scrollTop ?? 0) / STEP) - 1);
    for (let index = first; index < axes[side].tokens.length && y(index) < HEIGHT + STEP; index++) {
      const on = pointed?.side === side && pointed.index === index;
      pen.font = on ? `600 ${FONT}` : FONT;
      pen.fillStyle = on ? ink.accent : axes[side].special[index] ? ink.soft : ink.ink;
      pen.fillText(shortened(axes[side].tokens[index], 15), x, y(index), left - 10);
    }
  }

  return {
    chart,
    update(next) {
      lines = next;
      canvas.ask();
    },
    point(token) {
      pointed = token;
      canvas.ask();
    },
    locate(event) {
      const box = canvas.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top + (field?.scrollTop ?? 0)];
      const side = x < left + 12 ? "rows" : x > right - 12 ? "columns" : null;
      const index = Math.floor(y / STEP);
      return side && index >= 0 && index < axes[side].tokens.length ? { side, index } : null;
    },
    /** Scrolls until the token is visible. */
    reveal({ index }) {
      const y = index * STEP;
      if (y < field.scrollTop || y > field.scrollTop + field.clientHeight - 2 * STEP) field.scrollTop = y - field.clientHeight / 2;
    },
    attach(node) {
      field = node;
      field.addEventListener("scroll", canvas.ask, { passive: true });
      canvas.ask();
    },
  };
}
