// What a tokenizer.json does before and after its model: normalisers, splitters, decoders.

import { classSource, expression, literal } from "./characters.js";
import { precompiled } from "./precompiled.js";

const BYTES = bytesAsCharacters();
const CHARACTERS = new Map(BYTES.map((character, byte) => [character, byte]));
// GPT-2 (Radford et al. 2019)
const WORDS = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`;

/** A function of a text. */
export function normalizer(part, characters) {
  if (!part) return (text) => text;
  switch (part.type) {
    case "Sequence":
      return chained(part.normalizers.map((each) => normalizer(each, characters)));
    case "NFC":
    case "NFD":
    case "NFKC":
    case "NFKD":
      return replacing(new RegExp(`${classSource(characters.normalized)}+`, "gu"), (run) => run.normalize(part.type));
    case "Lowercase":
      return lowering(characters.lowercase);
    case "Prepend":
      return (text) => (text ? part.prepend + text : text);
    case "Replace":
      return replacing(patternOf(part.pattern, characters), () => part.content);
    case "Precompiled":
      return precompiled(part.precompiled_charsmap, characters);
    default:
      throw new Error(`the normalizer ${part.type} is not supported`);
  }
}

/** A function of pieces of a text, which gives smaller ones. */
export function preTokenizer(part, characters) {
  if (!part) return (pieces) => pieces;
  switch (part.type) {
    case "Sequence":
      return chained(part.pretokenizers.map((each) => preTokenizer(each, characters)));
    case "Split":
      if (part.invert || !(part.behavior in JOINED)) throw new Error(`Split with ${part.behavior} is not supported`);
      return each(splitting(patternOf(part.pattern, characters), JOINED[part.behavior]));
    case "ByteLevel":
      return byteLevel(part, characters);
    default:
      throw new Error(`the pre_tokenizer ${part.type} is not supported`);
  }
}

/** A function of the pieces of ids, which gives pieces of text. */
export function decoder(part, characters) {
  if (!part) return (pieces) => [pieces.join(" ")];
  switch (part.type) {
    case "Sequence":
      return chained(part.decoders.map((each) => decoder(each, characters)));
    case "Fuse":
      return (pieces) => [pieces.join("")];
    case "Strip":
      return (pieces) => pieces.map((piece) => stripped(piece, part));
    case "Replace": {
      const replaced = replacing(patternOf(part.pattern, characters), () => part.content);
      return (pieces) => pieces.map(replaced);
    }
    case "ByteLevel":
      return (pieces) => [utf8(pieces.flatMap(bytesOf))];
    case "ByteFallback":
      return spelledBytes;
    default:
      throw new Error(`the decoder ${part.type} is not supported`);
  }
}

function chained(steps) {
  return (value) => steps.reduce((found, step) => step(found), value);
}

function each(split) {
  return (pieces) => pieces.flatMap((piece) => (piece ? split(piece) : []));
}

function replacing(pattern, change) {
  return (text) => text.replace(pattern, change);
}

/** Capitals become small letters; `pairs` are those of the library, as a browser may know fewer or more. */
function lowering(pairs) {
  const lower = new Map(pairs.split(" ").map((pair) => {
    const [capital, ...small] = pair;
    return [capital, small.join("")];
  }));
  return (text) => Array.from(text, (character) => lower.get(character) ?? character).join("");
}

function patternOf(pattern, characters) {
  return pattern.Regex === undefined ? literal(pattern.String) : expression(pattern.Regex, characters);
}

/** Which parts, of a text cut at all matches, are kept or joined: by the place of a part, and whether it matches. */
const JOINED = {
  Isolated: (parts) => parts.map(([text]) => text),
  Removed: (parts) => parts.filter(([, matches]) => !matches).map(([text]) => text),
  MergedWithPrevious: (parts) => joined(parts, (text, before) => before + text),
  MergedWithNext: (parts) => joined(parts.reverse(), (text, after) => text + after).reverse(),
};

/** A match joins the part before it, unless that is a match too. */
function joined(parts, join) {
  const found = [];
  parts.forEach(([text, matches], place) => {
    if (matches && place && !parts[place - 1][1]) found.push(join(text, found.pop()));
    else found.push(text);
  });
  return found;
}

function splitting(pattern, join) {
  return (text) => {
    const parts = [];
    let end = 0;
    for (const found of text.matchAll(pattern)) {
      if (found.index > end) parts.push([text.slice(end, found.index), false]);
      if (found[0]) parts.push([found[0], true]);
      end = found.index + found[0].length;
    }
    if (end < text.length) parts.push([text.slice(end), false]);
    return join(parts);
  };
}

function byteLevel(part, characters) {
  const split = part.use_regex ? splitting(expression(WORDS, characters), JOINED.Isolated) : (text) => [text];
  const encoder = new TextEncoder();
  const spelled = (text) => Array.from(encoder.encode(text), (byte) => BYTES[byte]).join("");
  return each((text) => split(part.add_prefix_space && !text.startsWith(" ") ? ` ${text}` : text).map(spelled));
}

/** The 256 characters with which byte-level tokenisers write bytes. */
function bytesAsCharacters() {
  const printable = (byte) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let others = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(printable(byte) ? byte : others++));
}

/** The bytes that a piece spells; of one that has other characters, its own bytes. */
function bytesOf(piece) {
  const bytes = Array.from(piece, (character) => CHARACTERS.get(character));
  return bytes.includes(undefined) ? [...new TextEncoder().encode(piece)] : bytes;
}

function utf8(bytes, options = {}) {
  return new TextDecoder("utf-8", { ignoreBOM: true, ...options }).decode(Uint8Array.from(bytes));
}

/** Runs of pieces such as <0xC3> as text; of bytes that are not text, a replacement character for each. */
function spelledBytes(pieces) {
  const found = [];
  let run = [];
  const close = () => {
    if (run.length) found.push(...readOrReplaced(run));
    run = [];
  };
  for (const piece of pieces) {
    const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(piece);
    if (byte) run.push(Number.parseInt(byte[1], 16));
    else {
      close();
      found.push(piece);
    }
  }
  close();
  return found;
}

function readOrReplaced(bytes) {
  try {
    return [utf8(bytes, { fatal: true })];
  } catch {
    return bytes.map(() => "\ufffd");
  }
}

/** A piece without its first and last characters that are `content`, at most so many. */
function stripped(piece, { content, start, stop }) {
  const characters = [...piece];
  let first = 0;
  while (first < start && characters[first] === content) first += 1;
  let last = characters.length;
  while (characters.length - last < stop && last > first && characters[last - 1] === content) last -= 1;
  return characters.slice(first, last).join("");
}
