// Statistics of attention heads (inspection/heads.py), and attention rollout (inspection/rollout.py).

import { made, meanOfHeads, rounded } from "./look_arrays.js";

const STATISTICS = ["entropy", "distance", "previous", "next", "same", "duplicate", "induction", "first", "end", "copying", "aligning"];

/** The statistics of each head of an attention; null where one does not apply. */
export function headStatistics(site, { data, shape: [heads, rows, columns] }, sequences, links) {
  const rowTokens = sequences[site.part === "cross" ? "written" : site.rows].tokens;
  const columnTokens = sequences[site.columns].tokens;
  const special = new Set(Object.values(sequences).flatMap(({ tokens, special: marks }) => tokens.filter((_, place) => marks[place])));
  const counted = rowTokens.map((token, row) => !special.has(token) && !(site.part === "decoder" && row === 0));
  const at = (head) => (row, column) => data[(head * rows + row) * columns + column];
  const cells = attended(site.part, rowTokens, columnTokens, endOf(sequences), links);
  return Array.from({ length: heads }, (_, head) => {
    const weight = at(head);
    const over = (value, applies = () => true) => meanOver(counted, columns, value, applies);
    const values = { entropy: over((row, column) => (weight(row, column) > 0 ? -weight(row, column) * Math.log(weight(row, column)) : 0)) };
    if (site.part !== "cross") values.distance = over((row, column) => weight(row, column) * Math.abs(row - column));
    for (const [name, is] of Object.entries(cells)) {
      values[name] = over((row, column) => (is(row, column) ? weight(row, column) : 0), is);
    }
    const statistics = STATISTICS.map((name) => [name, rounded(values[name] ?? NaN)]);
    return { name: site.name, part: site.part, layer: site.layer, head, ...Object.fromEntries(statistics) };
  });
}

/** The last token of the first sequence, if it is a special one. */
function endOf(sequences) {
  const [first] = Object.values(sequences);
  return first.special.at(-1) ? first.tokens.at(-1) : null;
}

/** The sum of a row's values, on average over the counted rows that have a cell to which it applies; null without one. */
function meanOver(counted, columns, value, applies) {
  let sum = 0;
  let count = 0;
  for (let row = 0; row < counted.length; row += 1) {
    if (!counted[row]) continue;
    let has = false;
    let total = 0;
    for (let column = 0; column < columns; column += 1) {
      has ||= applies(row, column);
      total += value(row, column);
    }
    if (has) [sum, count] = [sum + total, count + 1];
  }
  return count ? sum / count : null;
}

/** For each statistic, the cells whose weight it sums. */
function attended(part, rows, columns, end, links) {
  const equal = (row, column) => rows[row] === columns[column];
  const linked = new Set(links.map(([source, target]) => `${target} ${source}`));
  const found = { first: (_, column) => column === 0 };
  if (columns.includes(end)) found.end = (_, column) => columns[column] === end;
  if (part === "cross") return { ...found, copying: equal, aligning: (row, column) => linked.has(`${row} ${column}`) };
  const earlier = (row, column) => column < row && equal(row, column);
  Object.assign(found, {
    previous: (row, column) => column === row - 1,
    same: (row, column) => column === row,
    duplicate: earlier,
    induction: (row, column) => column > 0 && column !== row && earlier(row, column - 1),
  });
  return part === "encoder" ? { ...found, next: (row, column) => column === row + 1 } : found;
}

/** The share of each input position in each output position of a stack: half of each layer is the residual. */
export function rollout(layers, residual = 0.5) {
  const [, length] = layers[0].shape;
  let found = Float64Array.from({ length: length * length }, (_, place) => (place % (length + 1) ? 0 : 1));
  for (const layer of layers) {
    const { data } = meanOfHeads(layer);
    const next = new Float64Array(length * length);
    for (let row = 0; row < length; row += 1) {
      const shares = Array.from({ length }, (_, column) => (column === row ? residual : 0) + (1 - residual) * data[row * length + column]);
      const total = shares.reduce((sum, share) => sum + share, 0);
      shares.forEach((share, between) => {
        for (let column = 0; share && column < length; column += 1) next[row * length + column] += (share / total) * found[between * length + column];
      });
    }
    found = next;
  }
  return made(Float32Array.from(found), [length, length]);
}
