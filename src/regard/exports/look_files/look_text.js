// A text before it is encoded, as Python treats it: what white space and capitals are.

const SPACE = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const ENDS = new RegExp(`^${SPACE}+|${SPACE}+$`, "gu");
const END = new RegExp(`${SPACE}+$`, "u");
const SPACES = new RegExp(`${SPACE}+`, "u");

/** The text without white space around it. */
export function stripped(text) {
  return text.replace(ENDS, "");
}

/** The text without white space after it. */
export function strippedRight(text) {
  return text.replace(END, "");
}

/** A stripped text with the model's prefix; of several words all in capitals, in small letters if `lower_capitals`. */
export function prepared(text, { text: before, lower_capitals: lowers }) {
  const capitals = /\p{Uppercase}/u.test(text) && !/\p{Lowercase}|\p{Lt}/u.test(text);
  const found = lowers && capitals && text.split(SPACES).length > 1 ? text.toLowerCase() : text;
  return before + found;
}
