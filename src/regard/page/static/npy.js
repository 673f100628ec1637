// NumPy's .npy files -> typed arrays. https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

const KINDS = { "<f4": Float32Array, "<f2": Uint16Array, "|u1": Uint8Array, "<i4": Int32Array };
const NAMES = { "<f4": "float32", "<f2": "float16", "|u1": "uint8", "<i4": "int32" };

/**
 * The array in these bytes: {data, shape, dtype}, in C order. Half floats come as a Float32Array.
 * @param {ArrayBuffer|ArrayBufferView} bytes
 */
export function parseNpy(bytes) {
  const view = bytes instanceof ArrayBuffer ? new Uint8Array(bytes) : new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (String.fromCharCode(...view.subarray(1, 6)) !== "NUMPY" || view[0] !== 0x93) throw new TypeError("not an .npy file");
  const wide = view[6] > 1;
  const length = view[8] | (view[9] << 8) | (wide ? (view[10] << 16) | (view[11] << 24) : 0);
  const start = (wide ? 12 : 10) + length;
  const header = new TextDecoder().decode(view.subarray(start - length, start));
  const { kind, shape } = described(header);
  const count = shape.reduce((product, size) => product * size, 1);
  const Kind = KINDS[kind];
  const end = start + count * Kind.BYTES_PER_ELEMENT;
  if (end > view.length) throw new RangeError(`an .npy file of shape ${shape} that is truncated`);
  const raw = new Kind(view.slice(start, end).buffer);
  return { data: kind === "<f2" ? widened(raw) : raw, shape, dtype: NAMES[kind] };
}

function described(header) {
  const kind = /'descr':\s*'([^']+)'/.exec(header)?.[1];
  const shape = /'shape':\s*\(([^)]*)\)/.exec(header)?.[1];
  if (!(kind in KINDS) || shape === undefined) throw new TypeError(`an .npy file of an unknown type: ${header.trim()}`);
  if (!/'fortran_order':\s*False/.test(header)) throw new TypeError("an .npy file in Fortran's order");
  return { kind, shape: shape.split(",").filter((size) => size.trim()).map(Number) };
}

let halves; // all 65 536 half floats, computed at the first use

function widened(raw) {
  halves ??= Float32Array.from({ length: 65536 }, (_, bits) => half(bits));
  const data = new Float32Array(raw.length);
  for (let i = 0; i < raw.length; i++) data[i] = halves[raw[i]];
  return data;
}

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
}

/** The sub-array at `indices` of the leading axes, sharing memory: at(weights, head) is one head's matrix. */
export function at(array, ...indices) {
  let { data, shape } = array;
  for (const index of indices) {
    if (!(index >= 0 && index < shape[0])) throw new RangeError(`index ${index} of an axis of ${shape[0]}`);
    shape = shape.slice(1);
    const size = shape.reduce((product, next) => product * next, 1);
    data = data.subarray(index * size, (index + 1) * size);
  }
  return { data, shape, dtype: array.dtype };
}

/** A matrix as rows that are views of it. */
export function rows(matrix) {
  return Array.from({ length: matrix.shape[0] }, (_, i) => at(matrix, i).data);
}
