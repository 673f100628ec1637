// Arrays of a look: {data, shape, dtype}, as the page reads them from .npy files.

const DTYPES = { float32: "float32", bool: "uint8", int64: "int32" };

/** A tensor of a graph without its first axis, which is one row. */
export function array(tensor) {
  return made(tensor.data, tensor.dims.slice(1), DTYPES[tensor.type]);
}

export function made(data, shape, dtype = "float32") {
  return { data, shape: [...shape], dtype };
}

/** The mean over the first axis. */
export function meanOfHeads({ data, shape: [heads, rows, columns] }) {
  const mean = new Float32Array(rows * columns);
  for (let place = 0; place < data.length; place += 1) mean[place % mean.length] += data[place] / heads;
  return made(mean, [rows, columns]);
}

/** A number with five decimals, as a look has it; null for one that is not finite. */
export function rounded(value, digits = 5) {
  return Number.isFinite(value) ? Math.round(value * 10 ** digits) / 10 ** digits : null;
}

/** The places of the `count` greatest values, greatest first; of equal ones the lower place. */
export function greatest(values, count) {
  const best = [];
  for (let place = 0; place < values.length; place += 1) {
    if (best.length === count && values[place] <= values[best[count - 1]]) continue;
    let at = best.length;
    while (at > 0 && values[place] > values[best[at - 1]]) at -= 1;
    best.splice(at, 0, place);
    if (best.length > count) best.pop();
  }
  return best;
}
