// Colours that people with colour blindness can distinguish, on light and on dark backgrounds ("paper").
//
// Scales run in lightness, which every eye sees; a diverging one runs from blue to orange, which the common
// kinds of colour blindness keep apart. The colours of heads stand out from their paper by 3 : 1 or more
// (WCAG 2.2, 1.4.11). In CIELAB the first eight have a distance of 30 or more, the second eight 20, all sixteen 15, also
// with red-blind or green-blind vision. No view distinguishes heads by colour alone: strokes.js adds dashes, and every
// head is named.
//
// If no paper is given, a colour is CSS's light-dark() of both, which follows the theme of its element. So nothing is
// redrawn if the theme changes, and files are saved on white. A canvas has to name its paper.

export const PAPER = { light: "#ffffff", dark: "#15181d" };
export const INK = { light: "#16191d", dark: "#e8eaed" };

const SEQUENTIAL = {
  light: ["#f6f8fa", "#d3e3ee", "#9cc3de", "#5a9bc7", "#2b70a5", "#134a78", "#08264a"],
  dark: ["#1b2027", "#173650", "#195a86", "#2f86b8", "#62b0d6", "#a5d6e8", "#f0fbff"],
};
const DIVERGING = {
  light: ["#8a3b00", "#c8670f", "#eda55b", "#f8dcb9", "#f7f7f7", "#cbdfee", "#7fb2d6", "#2f77b0", "#0b3f73"],
  dark: ["#ffd9a8", "#f5a54c", "#bf6c17", "#653a14", "#20252c", "#17405f", "#1f72ab", "#5aaee0", "#c0e4fa"],
};
const HEADS = {
  light: [
    "#0c60c0", "#e46c00", "#780060", "#cc6ca8", "#9c2400", "#0000fc", "#cc786c", "#781830",
    "#90606c", "#cc54fc", "#0c843c", "#3c24a8", "#f0003c", "#8430fc", "#8484cc", "#b42490",
  ],
  dark: [
    "#6cb4fc", "#b4d80c", "#cc2400", "#24e4c0", "#6048fc", "#9cd878", "#b43c90", "#b44854",
    "#a890a8", "#cc9c24", "#48b478", "#e4f0b4", "#d8ccfc", "#2484c0", "#a860fc", "#008424",
  ],
};

/** "light" or "dark": the theme of `root`, or of the page around it. What is printed is light. */
export function theme(root = null) {
  if (globalThis.matchMedia?.("print").matches) return "light";
  const chosen = (root?.closest?.("[data-theme]") ?? document.querySelector(".regard[data-theme]"))?.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return globalThis.matchMedia?.("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** The colour of head `index`; after sixteen the colours begin again, with other dashes (strokes.js). */
export function headColour(index, paper = null) {
  return onPaper(paper, (own) => HEADS[own][index % HEADS[own].length]);
}

export const HEAD_COLOURS = HEADS;

/** A weight in 0..1, as CSS text. */
export function sequential(value, paper = null) {
  return onPaper(paper, (own) => css(between(stops(SEQUENTIAL, own), value)));
}

/** A change in -1..1: orange below 0, blue above, paper at 0. */
export function diverging(value, paper = null) {
  return onPaper(paper, (own) => css(between(stops(DIVERGING, own), (value + 1) / 2)));
}

function onPaper(paper, colourOf) {
  return paper ? colourOf(paper) : `light-dark(${colourOf("light")}, ${colourOf("dark")})`;
}

/** Black or white, whichever has more contrast with `colour` (4.5 : 1 or more), a text as this module returns it. */
export function inkOn(colour) {
  const both = /^light-dark\((.+), (.+)\)$/.exec(colour);
  if (both) return `light-dark(${inkOn(both[1])}, ${inkOn(both[2])})`;
  return contrast(colour, "#000000") >= contrast(colour, "#ffffff") ? "#000000" : "#ffffff";
}

/** WCAG's contrast of two colours, 1..21. */
export function contrast(first, second) {
  const [low, high] = [luminance(rgb(first)), luminance(rgb(second))].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

/** 256 colours of the sequential scale, four bytes each: for ImageData. */
export function sequentialTable(paper) {
  return tableOf((share) => between(stops(SEQUENTIAL, paper), share));
}

/** The same of the diverging scale, from -1 to 1. */
export function divergingTable(paper) {
  return tableOf((share) => between(stops(DIVERGING, paper), share));
}

function tableOf(rgbOf) {
  const table = new Uint8ClampedArray(1024);
  for (let i = 0; i < 256; i++) table.set([...rgbOf(i / 255), 255], 4 * i);
  return table;
}

const read = new Map(); // colours of a scale as texts -> as numbers

function stops(scale, paper) {
  const texts = scale[paper];
  if (!read.has(texts)) read.set(texts, texts.map(rgb));
  return read.get(texts);
}

function between(colours, value) {
  const place = Math.min(1, Math.max(0, Number.isFinite(value) ? value : 0)) * (colours.length - 1);
  const low = Math.min(Math.floor(place), colours.length - 2);
  return colours[low].map((channel, i) => Math.round(channel + (place - low) * (colours[low + 1][i] - channel)));
}

function css([red, green, blue]) {
  return `rgb(${red} ${green} ${blue})`;
}

function rgb(text) {
  if (text.startsWith("#")) return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  return text.match(/\d+(\.\d+)?/g).slice(0, 3).map(Number);
}

function luminance(channels) {
  const [red, green, blue] = channels.map((channel) => {
    const share = channel / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
