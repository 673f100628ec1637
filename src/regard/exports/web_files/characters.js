// Classes of characters and regular expressions of a tokenizer.json, for JavaScript.
// A class is a text of numbers: how far each range begins after the last one, and how many follow, in base 36.

const SPACE = "\\p{White_Space}";

/** The regular expression of a class, in brackets unless `inside` another one. */
export function classSource(ranges, inside = false) {
  let last = 0;
  const found = (ranges || "").split(" ").filter(Boolean).map((range) => {
    const [gap, more] = range.split("+").map((number) => Number.parseInt(number, 36));
    const first = last + gap;
    last = first + (more || 0);
    return more ? `${escaped(first)}-${escaped(last)}` : escaped(first);
  });
  if (inside) return found.join("");
  return found.length ? `[${found.join("")}]` : "(?!)";
}

function escaped(point) {
  return `\\u{${point.toString(16)}}`;
}

/** A pattern that matches this text. */
export function literal(text) {
  return new RegExp(Array.from(text, (character) => escaped(character.codePointAt(0))).join(""), "gu");
}

/** The expression in JavaScript: its \p{L}, \p{M}, \p{N} are the library's, \s is white space of Unicode. */
export function expression(source, characters) {
  let inside = false;
  const translated = source.replace(/\\p\{([LMN])\}|\\(.)|[[\]]|\(\?i:([^()]*)\)/gu, (found, property, other, either) => {
    if (property) return classSource(characters[property], inside);
    if (either !== undefined) return `(?:${caseless(either)})`;
    if (found === "[") inside = true;
    if (found === "]") inside = false;
    if (!other) return found;
    return { s: SPACE, S: "\\P{White_Space}", A: "^", z: "$" }[other] ?? found;
  });
  return new RegExp(translated, "gu");
}

/** Letters in both cases; of s also the long one, which Unicode folds to it. */
function caseless(source) {
  return source.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}${letter === "s" ? "\\u017f" : ""}]`);
}
