// The position encoding of a model for any length, cut from a table of the greatest.

import { made } from "./look_arrays.js";

const LEAST = 64; // shown for short texts too, so that waves are visible

/** {json, arrays} of `scheme` {scheme, d, note}; `held`: a table [positions, d], or biases [heads, 2 * positions - 1]. */
export function positions({ scheme, d, note }, held, longest) {
  const wanted = Math.max(LEAST, longest);
  if (!held) return { json: { scheme, length: wanted, d, note }, arrays: {} };
  if (d) {
    const length = Math.min(wanted, held.shape[0]);
    const table = made(held.data.slice(0, length * d), [length, d]);
    return { json: { scheme, length, d, note }, arrays: { "positions/table": table, "positions/similarity": similarity(table) } };
  }
  const [heads, distances] = held.shape;
  const middle = (distances - 1) / 2;
  const bias = new Float32Array(heads * wanted * wanted);
  for (let place = 0; place < bias.length; place += 1) {
    const [head, row, column] = [Math.floor(place / wanted ** 2), Math.floor(place / wanted) % wanted, place % wanted];
    bias[place] = held.data[head * distances + middle + column - row];
  }
  return { json: { scheme, length: wanted, d, note }, arrays: { "positions/bias": made(bias, [heads, wanted, wanted]) } };
}

/** The cosine of each two rows. */
function similarity({ data, shape: [length, d] }) {
  const row = (place) => data.subarray(place * d, (place + 1) * d);
  const dot = (one, other) => one.reduce((sum, value, place) => sum + value * other[place], 0);
  const norms = Array.from({ length }, (_, place) => Math.max(Math.sqrt(dot(row(place), row(place))), 1e-12));
  const found = new Float32Array(length * length);
  for (let place = 0; place < found.length; place += 1) {
    const [one, other] = [Math.floor(place / length), place % length];
    found[place] = dot(row(one), row(other)) / (norms[one] * norms[other]);
  }
  return made(found, [length, length]);
}
