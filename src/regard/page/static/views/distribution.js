// The arithmetic of sampling: logits in descending order -> what is drawn from.

/**
 * Temperature, then top-k, then top-p, in the order in which regard's own sampler applies them.
 * @param {number[]} logits  in descending order
 * @param {{temperature?: number, k?: number, p?: number}} settings  k of 0 keeps all
 * @returns {{probabilities: Float64Array, count: number, entropy: number}} entropy in nats
 */
export function reshaped(logits, { temperature = 1, k = 0, p = 1 }) {
  const size = k > 0 ? Math.min(k, logits.length) : logits.length;
  const powers = new Float64Array(logits.length);
  let total = 0;
  for (let i = 0; i < size; i++) total += powers[i] = Math.exp((logits[i] - logits[0]) / temperature);
  let count = size;
  if (p < 1) {
    let before = 0;
    count = 0;
    // The fewest tokens that hold p together: a token stays if those before it hold less.
    while (count < size && before < p * total) before += powers[count++];
    powers.fill(0, count);
    total = before;
  }
  let entropy = 0;
  for (let i = 0; i < count; i++) {
    powers[i] /= total;
    if (powers[i] > 0) entropy -= powers[i] * Math.log(powers[i]);
  }
  return { probabilities: powers, count, entropy };
}
