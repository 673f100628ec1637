// Tokens as text: isolated from the writing direction of their neighbours, with visible glyphs for invisible characters.
import { element } from "./elements.js";

const NAMES = new Map(
  Object.entries({
    "\u00a0": "⍽", "\u00ad": "⟨SHY⟩", "\u061c": "⟨ALM⟩", "\u180e": "⟨MVS⟩", "\u200b": "⟨ZWSP⟩", "\u200e": "⟨LRM⟩",
    "\u200f": "⟨RLM⟩", "\u2028": "⟨LS⟩", "\u2029": "⟨PS⟩", "\u202a": "⟨LRE⟩", "\u202b": "⟨RLE⟩", "\u202c": "⟨PDF⟩",
    "\u202d": "⟨LRO⟩", "\u202e": "⟨RLO⟩", "\u2060": "⟨WJ⟩", "\u2066": "⟨LRI⟩", "\u2067": "⟨RLI⟩",
    "\u2068": "⟨FSI⟩", "\u2069": "⟨PDI⟩", "\ufeff": "⟨BOM⟩", "\n": "⏎", "\t": "⇥", "\u007f": "⟨DEL⟩",
  }),
);
const CONTROLS = (
  "NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
).split(" ");
// A joiner shapes the letters around it, so it stays within a word; alone it is shown by its name.
const LONE = new Map([["\u200c", "⟨ZWNJ⟩"], ["\u200d", "⟨ZWJ⟩"]]);
// Other invisible characters, and code points that are not characters, which SVG forbids; but not those that shape neighbours.
const UNSEEN = /(?![\u200c\u200d\ufe00-\ufe0f])[\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\ufff9-\ufffb]/u;

/** The token's text with control and bidi characters, and spaces at its ends, as visible glyphs. */
export function visible(text) {
  if (text === "") return "∅";
  if (LONE.has(text)) return LONE.get(text);
  const glyphs = [...String(text)].map(glyph).join("");
  return glyphs.replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length));
}

function glyph(character) {
  const named = NAMES.get(character);
  if (named) return named;
  const code = character.codePointAt(0);
  if (code < 0x20) return `⟨${CONTROLS[code]}⟩`; // few fonts have the glyphs ␀ ␁ ...
  if (code >= 0x80 && code < 0xa0) return `⟨${code.toString(16).toUpperCase()}⟩`;
  if (code >= 0xd800 && code < 0xe000) return "\ufffd"; // half of a surrogate pair
  if (code >= 0xe0000 && code < 0xe0080) return `⟨TAG ${code.toString(16).toUpperCase()}⟩`;
  if (UNSEEN.test(character)) return `⟨${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  return character;
}

/** The token in its own direction: `<bdi dir="auto">`. Tags and classes of `properties` go on it. */
export function token(text, { special = false, ...properties } = {}) {
  const names = ["token", special && "special", properties.class].filter(Boolean).join(" ");
  const [, before, word, after] = /^(␣*)(.*?)(␣*)$/s.exec(visible(text));
  const space = (glyphs) => glyphs && element("span", { class: "space" }, glyphs);
  return element("bdi", { dir: "auto", ...properties, class: names }, space(before), word, space(after));
}

/** At most `length` characters of the visible token, the rest an ellipsis: for the axes of charts. */
export function shortened(text, length = 14) {
  const characters = [...visible(text)];
  return characters.length > length ? `${characters.slice(0, length - 1).join("")}…` : characters.join("");
}

/** "3 Haus": a token with its position, counted from 0 as in Pharaoh's pairs, because two tokens may look alike. */
export function numbered(text, index) {
  return `${index} ${visible(text)}`;
}

/** "rtl" or "ltr": the direction of the first letter that has one, for lines that are made of tokens. */
export function direction(text) {
  const strong = /\p{L}/u.exec(String(text))?.[0];
  return strong && /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u.test(strong) ? "rtl" : "ltr";
}
