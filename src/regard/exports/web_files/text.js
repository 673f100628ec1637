// A text as Python treats it: what white space is, and where words end.

const SPACE = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const ENDS = new RegExp(`^${SPACE}+|${SPACE}+$`, "gu");
const END = new RegExp(`${SPACE}+$`, "u");
const SPACES = new RegExp(`${SPACE}+`, "u");
const PUNCTUATION = /^[\p{P}\p{Sc}]$/u;

/** The text without white space around it. */
export function stripped(text) {
  return text.replace(ENDS, "");
}

/** The text without white space after it. */
export function strippedRight(text) {
  return text.replace(END, "");
}

/** The parts of a text between white space. */
export function spaced(text) {
  return stripped(text).split(SPACES).filter(Boolean);
}

/** The words of a text, with punctuation before and after each as words of their own, as `regard tag` splits it. */
export function splitWords(text) {
  return spaced(text).flatMap(wordParts);
}

/** A word between the runs of signs around it; a final full stop stays if the word has another ("U.S."). */
function wordParts(word) {
  const signs = [...word];
  const isInside = (sign) => !PUNCTUATION.test(sign);
  const first = signs.findIndex(isInside);
  if (first < 0) return runs(word);
  let last = signs.findLastIndex(isInside) + 1;
  if (signs[last] === "." && signs.slice(first, last).includes(".")) last += 1;
  const part = (...ends) => signs.slice(...ends).join("");
  return [...runs(part(0, first)), part(first, last), ...runs(part(last))];
}

/** Signs, the same in a row as one. */
function runs(signs) {
  return signs.match(/(.)\1*/gsu) ?? [];
}
