// The arithmetic of sampling: logits in descending order -> the distribution that is sampled.

/**
 * Temperature, then top-k, then top-p, in the order in which regard's own sampler applies them.
 *
 * Of the other logits only their number is known, and the sum of their probabilities, `rest.mass`, as a multiple of the
 * first token's. At temperature 1 that is enough; at other temperatures they are assumed to be equal.
 * @param {number[]} logits  in descending order
 * @param {{temperature?: number, k?: number, p?: number}} settings  a k of 0 keeps all; else k is at most the number of logits
 * @param {{mass: number, count: number}} rest
 * @returns {{probabilities: Float64Array, rest: number, count: number, entropy: number}} `rest`: the
 *   probability of all other tokens; `count`: how many tokens can be sampled, with the others; entropy in nats
 */
export function reshaped(logits, { temperature = 1, k = 0, p = 1 }, rest = { mass: 0, count: 0 }) {
  const size = k > 0 ? Math.min(k, logits.length) : logits.length;
  const probabilities = new Float64Array(logits.length);
  let beyond = k > 0 || !(rest.mass > 0) ? 0 : rest.count * (rest.mass / rest.count) ** (1 / temperature);
  let total = beyond;
  for (let i = 0; i < size; i++) total += probabilities[i] = Math.exp((logits[i] - logits[0]) / temperature);
  let count = size;
  if (p < 1) {
    let before = 0;
    count = 0;
    // The fewest tokens whose probabilities add up to p: a token is kept if those before it add up to less.
    while (count < size && before < p * total) before += probabilities[count++];
    probabilities.fill(0, count);
    if (before >= p * total) beyond = 0;
    total = before + beyond;
  }
  let entropy = beyond > 0 ? (beyond / total) * Math.log((rest.count * total) / beyond) : 0;
  for (let i = 0; i < count; i++) {
    probabilities[i] /= total;
    if (probabilities[i] > 0) entropy -= probabilities[i] * Math.log(probabilities[i]);
  }
  return { probabilities, rest: beyond / total, count: count + (beyond > 0 ? rest.count : 0), entropy };
}

/** The mass of the tokens that are not in `logits`, given the log-probability of the first one. */
export function massBeyond(logits, logProbability) {
  const held = logits.reduce((sum, logit) => sum + Math.exp(logit - logits[0]), 0);
  return Math.max(0, Math.exp(-logProbability) - held);
}
