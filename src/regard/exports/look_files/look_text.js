// A text before it is encoded, as Python treats it: prefixes and capitals.

import { spaced } from "./text.js";

/** A stripped text with the model's prefix; of several words all in capitals, in small letters if `lower_capitals`. */
export function prepared(text, { text: before, lower_capitals: lowers }) {
  const capitals = /\p{Uppercase}/u.test(text) && !/\p{Lowercase}|\p{Lt}/u.test(text);
  const found = lowers && capitals && spaced(text).length > 1 ? text.toLowerCase() : text;
  return before + found;
}
