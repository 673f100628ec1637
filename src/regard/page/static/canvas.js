// A canvas that is sharp on every screen: for charts of more than 64 tokens.
import { element } from "./elements.js";

/** A canvas of this size in CSS pixels; `draw(pen)` works in CSS pixels too. `redraw()` on it draws again. */
export function canvas(width, height, draw) {
  const node = blank(width, height, { most: 3, style: { width: `${width}px` } }, draw);
  node.redraw();
  return node;
}

/**
 * A canvas that is redrawn by `ask()`, in the next frame and at most once a frame; it is empty at first. For charts that
 * are dragged or zoomed. `opaque`: `draw` paints every pixel.
 */
export function moving(width, height, draw, { opaque = false } = {}) {
  const node = blank(width, height, { most: 2, alpha: !opaque, style: { width: `${width}px`, height: `${height}px` } }, draw);
  let waiting = false;
  node.ask = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      node.redraw();
    });
  };
  return node;
}

/** `most`: the maximum of screen pixels for a CSS pixel. */
function blank(width, height, { most, style, alpha = true }, draw) {
  const ratio = Math.min(most, globalThis.devicePixelRatio || 1);
  const node = element("canvas", {
    class: "chart", width: Math.round(width * ratio), height: Math.round(height * ratio), aria: { hidden: "true" }, style,
  });
  const pen = node.getContext("2d", { alpha });
  node.redraw = () => {
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    draw(pen);
  };
  return node;
}

/** Draws every canvas inside `root` again, at once: its colours are those of the theme, which has changed. */
export function redrawCanvases(root) {
  for (const node of root.querySelectorAll("canvas")) node.redraw?.();
}

/** A matrix as one pixel a cell, ready for `drawImage`; `colours` is a table of 256 colours (colour.js). */
export function pixels({ data, shape: [height, width] }, colours, top = 1) {
  const node = document.createElement("canvas");
  node.width = width;
  node.height = height;
  const pen = node.getContext("2d");
  const image = pen.createImageData(width, height);
  for (let i = 0; i < data.length; i++) {
    const shade = 4 * Math.round(255 * Math.min(1, Math.max(0, data[i] / top)));
    for (let channel = 0; channel < 4; channel++) image.data[4 * i + channel] = colours[shade + channel];
  }
  pen.putImageData(image, 0, 0);
  return node;
}
