// The head view's lines of up to 64 tokens, as SVG.
import { headColour } from "../colour.js";
import { headDash } from "../strokes.js";
import { drawing, group, path, rect, text, textWidth, tokenText, widest } from "../svg.js";
import { shortened } from "../tokens.js";
import { inDrawing } from "./stage.js";

const STRIP = 5; // pixels of a head's mark beside a token
const TOP = 34;

/** Paints lines between two lists: {chart, update(lines), point(token), locate(event)}. */
export function fewLines({ axes, width, heads }) {
  const place = layout(axes, width, heads);
  const base = group({ class: "base" });
  const lit = group({ class: "lit" });
  const names = {
    rows: axes.rows.tokens.map((_, index) => leftName(axes.rows, index, place)),
    columns: axes.columns.tokens.map((content, index) =>
      tokenText(place.right + place.gutter + 8, place.y(index) + 4.5, content, { special: axes.columns.special[index], length: place.length })),
  };
  const chart = drawing(width, place.height,
    text(place.left - place.gutter - 8, 15, axes.rows.short, { anchor: "end", class: "soft" }),
    text(place.right + place.gutter + 8, 15, axes.columns.short, { class: "soft" }),
    base, lit, group({}, names.rows), group({}, names.columns));
  chart.classList.add("lines");
  let lines = [];
  let pointed = null;

  function line({ row, column, head, weight }) {
    const shift = (head - (heads - 1) / 2) * Math.min(2.4, 14 / heads); // so that lines of different heads do not overlap
    const [y1, y2, middle] = [place.y(row) + shift, place.y(column) + shift, (place.left + place.right) / 2];
    return path(`M${place.left} ${y1}C${middle} ${y1} ${middle} ${y2} ${place.right} ${y2}`, {
      stroke: headColour(head), "stroke-dasharray": headDash(head),
      "stroke-width": (0.8 + 2.6 * weight).toFixed(2), "stroke-opacity": Math.min(1, 0.06 + weight).toFixed(3),
    });
  }

  function update(next) {
    lines = next;
    base.replaceChildren(...lines.map(line));
    point(pointed);
  }

  function point(token) {
    if (pointed) names[pointed.side][pointed.index].classList.remove("on");
    pointed = token;
    chart.classList.toggle("isolated", Boolean(token));
    if (!token) return lit.replaceChildren();
    names[token.side][token.index].classList.add("on");
    const own = lines.filter((one) => (token.side === "rows" ? one.row : one.column) === token.index);
    lit.replaceChildren(...own.map(line), ...own.map((one) => mark(one, token.side)));
  }

  /** A mark next to the other end of a line: its head's colour, shaded by the weight. */
  function mark({ row, column, head, weight }, side) {
    const far = side === "rows" ? place.right + 3 + head * place.strip : place.left - 3 - place.gutter + head * place.strip;
    const y = place.y(side === "rows" ? column : row);
    return rect(far, y - place.step / 2 + 2, place.strip - 1, place.step - 4, { fill: headColour(head), "fill-opacity": weight.toFixed(3) });
  }

  function locate(event) {
    const { x, y } = inDrawing(chart, event);
    const side = x < place.left + 12 ? "rows" : x > place.right - 12 ? "columns" : null;
    const index = Math.floor((y - TOP) / place.step);
    return side && index >= 0 && index < axes[side].tokens.length ? { side, index } : null;
  }

  return { chart, update, point, locate };
}

function layout(axes, width, heads) {
  const count = Math.max(axes.rows.tokens.length, axes.columns.tokens.length);
  const strip = heads > 1 ? Math.min(STRIP, 60 / heads) : STRIP;
  const gutter = heads * strip + 3;
  const narrow = width < 480;
  const length = narrow ? 9 : 14;
  const room = Math.max(60, (width - 2 * gutter - 100) / 2); // the lines need at least 100 pixels
  const before = axes.rows.after && !narrow ? widest(axes.rows.after, 8) + 24 : 0;
  const held = (axis, more) => Math.max(textWidth(axis.short), Math.min(room, widest(axis.tokens, length) + more)); // at least as wide as the title
  const left = gutter + 10 + held(axes.rows, before);
  const right = width - gutter - 10 - held(axes.columns, 0);
  const step = count > 32 ? 20 : Math.min(count > 16 ? 30 : 40, Math.max(27, Math.round(width / 40))); // a wide and flat chart is hard to read
  return {
    left, right, gutter, strip, length, step, before,
    height: TOP + count * step + 4,
    y: (index) => TOP + (index + 0.5) * step,
  };
}

function leftName(axis, index, place) {
  const [x, y] = [place.left - place.gutter - 8, place.y(index) + 4.5];
  const name = tokenText(x, y, axis.tokens[index], { anchor: "end", special: axis.special[index], length: place.length });
  if (!place.before) return name;
  const start = x - textWidth(shortened(axis.tokens[index], place.length)) - 11;
  return group({}, text(start, y, `${shortened(axis.after[index], 8)} ▸`, { anchor: "end", class: "soft token" }), name);
}
