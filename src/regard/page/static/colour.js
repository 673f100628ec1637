// Colours that people who see colours differently can tell apart, on light paper and on dark.
//
// Scales run in lightness, which every eye sees; a diverging one runs from blue to orange, which the common
// kinds of colour blindness keep apart. The colours of heads stand out from their paper by 3 : 1 or more
// (WCAG 2.2, 1.4.11). Any two of the first eight are 30 apart or more in CIELAB, any two of the second eight 20,
// any two of all 15, also for eyes without red or green cones: they were searched for by that. No view tells heads
// apart by colour alone: strokes.js adds dashes, and every head is named.
//
// Without a paper a colour is CSS's light-dark() of both: its mark follows the theme of the place where it stands. So a
// page that changes its theme need not be drawn anew, and what is saved is on white. A canvas has to name its paper.

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

/** "light" or "dark": what `root`, or the page around it, is set in. */
export function theme(root = null) {
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

/** A change in -1..1: orange below nought, blue above, paper at nought. */
export function diverging(value, paper = null) {
  return onPaper(paper, (own) => css(between(stops(DIVERGING, own), (value + 1) / 2)));
}

function onPaper(paper, colourOf) {
  return paper ? colourOf(paper) : `light-dark(${colourOf("light")}, ${colourOf("dark")})`;
}

/** Black or white, whichever reads better on `colour`, as this module writes colours: 4.5 : 1 at the least. */
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

const read = new Map(); // scale's texts -> numbers

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
