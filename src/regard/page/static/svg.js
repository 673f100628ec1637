// Small helpers to draw with SVG: for charts of up to 64 tokens, where each mark may be an element of its own.
import { svgElement } from "./elements.js";
import { shortened } from "./tokens.js";

/** A drawing of this size in pixels that shrinks with its container. Screen readers get the figure's table instead. */
export function drawing(width, height, ...children) {
  return svgElement(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${height}`, width, height, aria: { hidden: "true" } },
    ...children,
  );
}

export function rect(x, y, width, height, properties = {}) {
  return svgElement("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), ...properties });
}

export function line(x1, y1, x2, y2, properties = {}) {
  return svgElement("line", { x1, y1, x2, y2, ...properties });
}

export function path(d, properties = {}) {
  return svgElement("path", { d, fill: "none", ...properties });
}

export function circle(cx, cy, r, properties = {}) {
  return svgElement("circle", { cx, cy, r, ...properties });
}

export function group(properties = {}, ...children) {
  return svgElement("g", properties, ...children);
}

/** Text at a point; `anchor` is "start", "middle" or "end", `turn` rotates it by degrees about the point. */
export function text(x, y, content, { anchor = "start", turn = 0, ...properties } = {}) {
  const transform = turn ? `rotate(${turn} ${x} ${y})` : null;
  return svgElement("text", { x, y, "text-anchor": anchor, transform, ...properties }, content);
}

/** A token as text at a point: visible glyphs, cut to `length` characters, with the whole token as a tool tip. */
export function tokenText(x, y, content, { length = 14, special = false, ...properties } = {}) {
  const node = text(x, y, shortened(content, length), properties);
  node.classList.add("token");
  if (special) node.classList.add("special");
  return node;
}

/** The tool tip of a mark. */
export function titled(node, words) {
  node.append(svgElement("title", {}, words));
  return node;
}

let pen; // a canvas's context: the only way to know a text's width before it is drawn

/** How wide `content` is in pixels, in the charts' font. */
export function textWidth(content, font = "13px system-ui, sans-serif") {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = font;
  return pen.measureText(content).width;
}

/** The widest of these tokens as a chart shows them, in pixels. */
export function widest(tokens, length = 14) {
  return Math.ceil(Math.max(0, ...tokens.map((token) => textWidth(shortened(token, length)))));
}

/** The width of a drawing in `root`: that of the page; 720 pixels without a page. */
export function room(root) {
  return Math.max(280, Math.floor(root.getBoundingClientRect().width) || 720);
}

/** The height of a chart that is fully visible together with its title and controls. */
export function sight() {
  return Math.max(420, Math.floor(0.75 * globalThis.innerHeight));
}

/** The linear function from `domain` to `range`, both [from, to]. */
export function scaled([from, to], [low, high]) {
  return (value) => low + ((value - from) / (to - from || 1)) * (high - low);
}

/** Round numbers across [from, to], about `count` of them: for the ticks of an axis. */
export function ticks(from, to, count = 5) {
  const rough = (to - from) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const found = [];
  for (let value = Math.ceil(from / step) * step; value <= to + step * 1e-9; value += step) found.push(Number(value.toPrecision(12)));
  return found;
}
