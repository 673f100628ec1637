// Arithmetic of the search: log-probabilities, the best candidates, rows of tensors.

/** Log-probabilities, in double precision. */
export function logSoftmax(logits) {
  const size = logits.length; // plain loops: an iterator takes many times as long
  let largest = -Infinity;
  for (let id = 0; id < size; id += 1) if (logits[id] > largest) largest = logits[id];
  let sum = 0;
  for (let id = 0; id < size; id += 1) sum += Math.exp(logits[id] - largest);
  if (!(sum > 0)) throw new Error("the model computes something that is not a number");
  const found = new Float64Array(size);
  const log = Math.log(sum);
  for (let id = 0; id < size; id += 1) found[id] = logits[id] - largest - log;
  return found;
}

/** The best `count` pairs of a row and its next id, best first; of equal ones the lower id. */
export function topCandidates(totals, logProbs, count) {
  const best = [];
  for (const [row, values] of logProbs.entries()) {
    for (let id = 0; id < values.length; id += 1) {
      const total = totals[row] + values[id];
      if (best.length === count && total < best[count - 1].total) continue;
      const candidate = { row, id, total };
      let place = best.length;
      while (place > 0 && before(candidate, best[place - 1])) place -= 1;
      best.splice(place, 0, candidate);
      if (best.length > count) best.pop();
    }
  }
  return best;
}

function before(one, other) {
  return one.total !== other.total ? one.total > other.total : one.id !== other.id ? one.id < other.id : one.row < other.row;
}

/** A row of ids with padding after it. */
export function filled(row, width, pad = 0) {
  return [...row, ...Array(width - row.length).fill(pad)];
}

/** These rows of a tensor, as values and dims. */
export function selected(tensor, rows) {
  const [, ...dims] = tensor.dims;
  const size = dims.reduce((product, each) => product * each, 1);
  const values = new tensor.data.constructor(rows.length * size);
  rows.forEach((row, place) => values.set(tensor.data.subarray(row * size, (row + 1) * size), place * size));
  return [values, [rows.length, ...dims]];
}

/** The first row of a tensor as many times, as values and dims. */
export function repeated(tensor, times) {
  return selected(tensor, Array(times).fill(0));
}
