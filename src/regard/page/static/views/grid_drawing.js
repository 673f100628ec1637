// The thumbnails of all heads as one drawing to save.
import { svgElement } from "../elements.js";
import { drawing, text } from "../svg.js";

const SIDE = 110;

/** Pictures with titles, `across` in a row, as one SVG. `pictures`: [{canvas, title}]. */
export function gridDrawing(pictures, across) {
  const [wide, high] = [SIDE + 14, SIDE + 34];
  const lines = Math.ceil(pictures.length / across);
  return drawing(across * wide + 14, lines * high + 14,
    pictures.map(({ canvas, title }, i) => {
      const [x, y] = [14 + (i % across) * wide, 14 + Math.floor(i / across) * high];
      const href = canvas.toDataURL("image/png");
      return [
        svgElement("image", { x, y: y + 16, width: SIDE, height: SIDE, href, preserveAspectRatio: "xMinYMin" }),
        text(x, y + 10, title, { "font-size": 10 }),
      ];
    }));
}
