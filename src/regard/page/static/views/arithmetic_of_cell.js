// The arithmetic of one row of attention, computed from the model's numbers (Vaswani et al. 2017, equation 1).

/** The products of the elements of a query and a key; their sum is the dot product. */
export function products(query, key) {
  return Float64Array.from(query, (value, i) => value * key[i]);
}

export function sum(values) {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

/**
 * Every step of one row: `query` [d_head], `keys` [columns][d_head], `mask` [columns] (1 = may attend) or null,
 * `bias` [columns] or null; `softcap` is a number or null. Returns one entry a column: {dot, scaled, bias, score,
 * allowed, exponential, weight}.
 * The largest allowed score is subtracted before exp, as in the model's kernels; this does not change the weights.
 * A row that may attend to nothing has weights of 0.
 */
export function rowOfAttention({ query, keys, mask, bias, softcap }) {
  const scale = Math.sqrt(query.length);
  const cells = keys.map((key, column) => {
    const dot = sum(products(query, key));
    const added = bias ? bias[column] : 0;
    const scaled = dot / scale;
    const capped = softcap ? softcap * Math.tanh(scaled / softcap) : scaled;
    return { dot, scaled, bias: added, score: capped + added, allowed: !mask || mask[column] !== 0 };
  });
  const largest = Math.max(...cells.filter((cell) => cell.allowed).map((cell) => cell.score));
  for (const cell of cells) cell.exponential = cell.allowed ? Math.exp(cell.score - largest) : 0;
  const total = sum(cells.map((cell) => cell.exponential));
  for (const cell of cells) cell.weight = total > 0 ? cell.exponential / total : 0;
  return { cells, scale, largest, total };
}

/**
 * The difference below which two weights count as equal: the page's copy has half precision (11 bits, a relative
 * error of 2^-11), and the model's kernel adds its terms in another order.
 */
export function agrees(recomputed, recorded) {
  return Math.abs(recomputed - recorded) <= 1e-4 + 2 ** -10 * Math.abs(recorded);
}

/** Entropy in nats of one row of weights. */
export function entropy(weights) {
  let total = 0;
  for (const weight of weights) if (weight > 0) total -= weight * Math.log(weight);
  return total;
}
