// Dashes of lines, which distinguish heads in addition to colour.

export const DASHES = ["none", "7 4", "2 3", "11 3 2 3", "16 5", "2 8", "9 3 2 3 2 3", "4 9"];

/**
 * The dash of head `index` in a chart of many lines: the first eight heads have solid lines, which are easiest to see, and
 * each eight after them have their own dash. With the sixteen colours, 64 heads differ.
 */
export function headDash(index) {
  return DASHES[Math.floor(index / 8) % DASHES.length];
}

/** The dash of line `index` in a chart of few lines: neighbours differ without colour too, and 64 lines with colour. */
export function seriesDash(index) {
  return DASHES[(index + Math.floor(index / 16)) % 4];
}

/** A dash as an array for a canvas. */
export function canvasDash(dash) {
  return dash === "none" ? [] : dash.split(" ").map(Number);
}
