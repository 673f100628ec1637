// Predictions: steps, kept logits, the logit lens (inspection/steps.py, lens.py), and the nearest embeddings.

import { logSoftmax } from "./arrays.js";
import { greatest, made, rounded } from "./look_arrays.js";

const CANDIDATES = 20;
const LENS_CANDIDATES = 5;
const KEPT = 512; // of each step, the greatest
const NEIGHBOURS = 8;

function rowsOf(data, count, width) {
  return Array.from({ length: count }, (_, row) => data.subarray(row * width, (row + 1) * width));
}

/** Each written token: its log-probability (`exact` is not rounded), entropy, rank, and the best candidates. */
export function steps(data, written, width, token) {
  return rowsOf(data, written.length, width).map((logits, place) => {
    const id = written[place];
    const logProbs = logSoftmax(logits);
    if (!token) return { exact: logProbs[id] };
    return {
      id, token: token(id), exact: logProbs[id], log_prob: rounded(logProbs[id]), entropy: rounded(entropy(logProbs)), rank: rank(logits, id),
      candidates: candidates(logProbs, CANDIDATES, token),
    };
  });
}

function candidates(logProbs, count, token) {
  return greatest(logProbs, count).map((id) => ({ id, token: token(id), log_prob: rounded(logProbs[id]) }));
}

function entropy(logProbs) {
  let sum = 0;
  for (const each of logProbs) if (each > -Infinity) sum -= Math.exp(each) * each;
  return sum;
}

/** 1 for the most likely; in a tie the lower id comes first. */
function rank(logits, id) {
  let found = 1;
  logits.forEach((logit, other) => {
    if (logit > logits[id] || (logit === logits[id] && other < id)) found += 1;
  });
  return found;
}

/** The greatest log-probabilities of each step, their ids, and the tokens of these. */
export function keptLogits(data, length, width, token) {
  const kept = Math.min(KEPT, width);
  const values = new Float32Array(length * kept);
  const ids = new Int32Array(length * kept);
  rowsOf(data, length, width).forEach((logits, row) => {
    const logProbs = logSoftmax(logits);
    const order = sortedPlaces(logProbs).subarray(0, kept);
    ids.set(order, row * kept);
    values.set(Float32Array.from(order, (id) => logProbs[id]), row * kept);
  });
  const distinct = [...new Set(ids)].sort((one, other) => one - other);
  return {
    kept,
    tokens: Object.fromEntries(distinct.map((id) => [id, token(id)])),
    arrays: { logits: made(values, [length, kept]), logit_ids: made(ids, [length, kept], "int32") },
  };
}

/** The places of values, greatest first. */
function sortedPlaces(values) {
  return Int32Array.from(values.keys()).sort((one, other) => values[other] - values[one] || one - other);
}

/** The predictions of each layer at each position, from logits [layers, positions, vocabulary]. */
export function lens(data, written, width, layers, token) {
  const rows = rowsOf(data, layers * written.length, width);
  const ofLayer = (layer) => rows.slice(layer * written.length, (layer + 1) * written.length);
  const all = Array.from({ length: layers }, (_, layer) => ofLayer(layer));
  const logProbs = all.map((positions) => positions.map(logSoftmax));
  return {
    layers: all.map((_, layer) => (layer ? String(layer) : "embedding")),
    positions: "written",
    cells: logProbs.map((positions) => positions.map((each) => candidates(each, LENS_CANDIDATES, token))),
    rank: all.map((positions) => positions.map((logits, place) => rank(logits, written[place]))),
    entropy: logProbs.map((positions) => positions.map((each) => rounded(entropy(each)))),
  };
}

/** The other ids whose embeddings have the greatest cosines with that of each id, from cosines [ids, vocabulary]. */
export function neighbours({ data, dims: [, width] }, ids, token) {
  return rowsOf(data, ids.length, width).map((cosines, place) => {
    const others = Float32Array.from(cosines);
    others[ids[place]] = -Infinity;
    return greatest(others, Math.min(NEIGHBOURS, width - 1)).map((id) => ({ id, token: token(id), cosine: rounded(others[id], 4) }));
  });
}
