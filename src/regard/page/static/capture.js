// Saves a drawing: on white, in the light theme's colours, whatever theme the page has.
import { redrawCanvases } from "./canvas.js";
import { PAPER } from "./colour.js";

const COPIED = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "opacity",
  "font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "unicode-bidi",
];
const SHAPES = new Set(["rect", "line", "path", "circle", "ellipse", "polygon", "polyline", "text", "tspan", "g"]);

/**
 * A capture of `drawing` (an SVG or a canvas) inside the element `holder`: {svg, picture, width, height}, with the text of
 * an .svg file, and the pixels if it is a canvas (else null).
 */
export function capture(drawing, holder) {
  return inLight(holder, () => {
    if (drawing instanceof SVGElement) {
      const { width, height } = drawing.viewBox.baseVal;
      return { svg: mounted(drawing, holder, svgText), picture: null, width, height };
    }
    const picture = copied(drawing);
    return { svg: framed(picture), picture, width: picture.width, height: picture.height };
  });
}

/** The result of `work()`, called while `holder` has the light theme; it is synchronous, so the screen does not change. */
function inLight(holder, work) {
  holder.dataset.theme = "light";
  holder.style.colorScheme = "light";
  try {
    redrawCanvases(holder);
    return work();
  } finally {
    delete holder.dataset.theme;
    holder.style.colorScheme = "";
    redrawCanvases(holder);
  }
}

/** The result of `work(drawing)`, called while the drawing is in the page, so that style sheets apply to it. */
function mounted(drawing, holder, work) {
  if (drawing.isConnected) return work(drawing);
  drawing.style.position = "absolute";
  drawing.style.visibility = "hidden";
  holder.append(drawing);
  try {
    return work(drawing);
  } finally {
    drawing.remove();
  }
}

/** The drawing as the text of an .svg file that looks the same without the page's style sheet. */
function svgText(drawing) {
  const copy = drawing.cloneNode(true);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const originals = drawing.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((node, i) => {
    if (SHAPES.has(node.localName)) settle(node, originals[i]);
    node.removeAttribute("class");
    node.removeAttribute("style");
    node.removeAttribute("tabindex");
  });
  copy.removeAttribute("class");
  copy.removeAttribute("style"); // which hid it while it was measured
  copy.removeAttribute("aria-hidden");
  copy.prepend(background(copy));
  return new XMLSerializer().serializeToString(copy);
}

function settle(node, original) {
  const style = getComputedStyle(original);
  for (const name of COPIED) {
    const value = style.getPropertyValue(name);
    if (value) node.setAttribute(name, value);
  }
  if (style.display === "none") node.setAttribute("display", "none");
}

function background(drawing) {
  const [x, y, width, height] = drawing.getAttribute("viewBox").split(/\s+/);
  const node = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ x, y, width, height, fill: PAPER.light })) node.setAttribute(name, value);
  return node;
}

/** The pixels of a canvas on white. */
function copied(canvas) {
  const copy = blank(canvas.width, canvas.height);
  copy.getContext("2d").drawImage(canvas, 0, 0);
  return copy;
}

function blank(width, height) {
  const node = document.createElement("canvas");
  node.width = width;
  node.height = height;
  const pen = node.getContext("2d");
  pen.fillStyle = PAPER.light;
  pen.fillRect(0, 0, width, height);
  return node;
}

/** A canvas that has no drawing of its own is saved as a picture inside an SVG. */
function framed(picture) {
  const size = `width="${picture.width}" height="${picture.height}"`;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${picture.width} ${picture.height}" ${size}>` +
    `<rect ${size} fill="${PAPER.light}"/><image ${size} href="${picture.toDataURL("image/png")}"/></svg>`
  );
}

/** A capture as PNG; a drawing has twice as many pixels as it has on the screen. */
export async function png({ svg, picture, width, height }) {
  const target = picture ?? blank(Math.ceil(2 * width), Math.ceil(2 * height));
  if (!picture) target.getContext("2d").drawImage(await loaded(svg), 0, 0, target.width, target.height);
  const blob = await new Promise((resolve) => target.toBlob(resolve, "image/png"));
  if (!blob) throw new Error(`no PNG of ${target.width} x ${target.height} pixels is possible here`);
  return blob;
}

async function loaded(svg) {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    await new Promise((resolve, reject) => {
      image.onload = resolve; // not decode(), which waits for the next frame: a tab that is not seen has none
      image.onerror = () => reject(new Error("the drawing cannot be read as an SVG"));
      image.src = url;
    });
  } finally {
    URL.revokeObjectURL(url);
  }
  return image;
}
