// The normalisation table of a sentencepiece file: a double-array trie of texts, and what each becomes.

import { classSource } from "./characters.js";

const LEAST_KEPT = 6; // bytes of a grapheme that is normalised character by character

/** A function of a text; `charsmap` is the size of the trie in bytes, the trie, and texts that end with NUL, in base64. */
export function precompiled(charsmap, { extending, prepended }) {
  const bytes = Uint8Array.from(atob(charsmap), (character) => character.charCodeAt(0));
  const size = new DataView(bytes.buffer).getUint32(0, true);
  const units = Uint32Array.from({ length: size / 4 }, (_, place) => new DataView(bytes.buffer).getUint32(4 + 4 * place, true));
  const texts = bytes.subarray(4 + size);
  const encoder = new TextEncoder();
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const change = (text) => {
    const found = firstPrefix(units, encoder.encode(text));
    return found === null ? null : decoder.decode(texts.subarray(found, texts.indexOf(0, found)));
  };
  const graphemes = new RegExp(graphemeSource(classSource(extending), classSource(prepended)), "gu");
  const normalized = (grapheme) => {
    const whole = encoder.encode(grapheme).length < LEAST_KEPT ? change(grapheme) : null;
    return whole ?? Array.from(grapheme, (character) => change(character) ?? character).join("");
  };
  return (text) => text.replace(graphemes, normalized);
}

/** An expression for graphemes of less than LEAST_KEPT bytes; longer ones may be cut. */
function graphemeSource(extending, prepended) {
  const control = `(?!${extending}|${prepended})[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}]`;
  const other = `(?!${control})[^]`;
  return `\\r\\n|${control}|${prepended}+(?:${other})?${extending}*|${other}${extending}*`;
}

/** The value of the shortest text in the trie that these bytes begin with; null if there is none. */
function firstPrefix(units, bytes) {
  let place = offset(units[0]);
  for (const byte of bytes) {
    if (byte === 0) return null;
    place ^= byte;
    const unit = units[place];
    if ((unit & 0x800000ff) !== byte) return null;
    place ^= offset(unit);
    if ((unit >>> 8) & 1) return units[place] & 0x7fffffff;
  }
  return null;
}

function offset(unit) {
  return (unit >>> 10) << ((unit & 512) >>> 6);
}
