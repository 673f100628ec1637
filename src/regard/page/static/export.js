// Every figure can be taken away: as SVG, as PNG, as CSV.

const COPIED = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "opacity",
  "font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline", "unicode-bidi",
];
const SHAPES = new Set(["rect", "line", "path", "circle", "ellipse", "polygon", "polyline", "text", "tspan", "g"]);

/** The drawing as the text of an .svg file that looks the same without the page's style sheet. */
export function svgText(drawing, paper = null) {
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
  copy.removeAttribute("style"); // how it was hidden while it was measured
  copy.removeAttribute("aria-hidden");
  if (paper) copy.prepend(background(copy, paper));
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

function background(drawing, paper) {
  const [x, y, width, height] = drawing.getAttribute("viewBox").split(/\s+/);
  const node = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ x, y, width, height, fill: paper })) node.setAttribute(name, value);
  return node;
}

/** A PNG of the drawing (an SVG or a canvas) on `paper`, twice as many pixels as it has on the screen. */
export async function png(drawing, paper) {
  const size = drawing.viewBox?.baseVal ?? drawing;
  const target = document.createElement("canvas");
  const scale = drawing instanceof SVGElement ? 2 : 1;
  target.width = Math.ceil(size.width * scale);
  target.height = Math.ceil(size.height * scale);
  const pen = target.getContext("2d");
  pen.fillStyle = paper;
  pen.fillRect(0, 0, target.width, target.height);
  pen.drawImage(drawing instanceof SVGElement ? await picture(drawing) : drawing, 0, 0, target.width, target.height);
  return new Promise((resolve) => target.toBlob(resolve, "image/png"));
}

async function picture(drawing) {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svgText(drawing)], { type: "image/svg+xml" }));
  try {
    image.src = url;
    await image.decode();
  } finally {
    URL.revokeObjectURL(url);
  }
  return image;
}

/** Rows of cells as CSV (RFC 4180). A text that a spreadsheet would take for a formula gets a quote before it. */
export function csv(rows) {
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Hands a file to the reader. `content`: text or a Blob. */
export function download(name, content, type = "text/plain") {
  const blob = content instanceof Blob ? content : new Blob([content], { type });
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000); // after the browser has taken it up
}
