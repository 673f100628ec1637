// Dashes of lines: the second way, beside colour, to tell one head from another.

export const DASHES = ["none", "7 4", "2 3", "11 3 2 3", "16 5", "2 8", "9 3 2 3 2 3", "4 9"];

/**
 * The dash of head `index` in a tangle of lines: the first eight heads are whole lines, which are read most easily, and
 * each eight after them have a dash of their own. With the sixteen colours, 64 heads are told apart.
 */
export function headDash(index) {
  return DASHES[Math.floor(index / 8) % DASHES.length];
}

/** The dash of line `index` of a chart of few lines, where neighbours are told apart without colour too; 64 of them in all. */
export function seriesDash(index) {
  return DASHES[(index + Math.floor(index / 16)) % 4];
}

/** A dash as a canvas takes it. */
export function canvasDash(dash) {
  return dash === "none" ? [] : dash.split(" ").map(Number);
}
