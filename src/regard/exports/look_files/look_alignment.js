// The layer whose attention to the source is the clearest, and its links (inspection/alignment.py).

import { meanOfHeads } from "./look_arrays.js";

/** Of cross-attentions {site, weights} the clearest: {site, mean, links, why}; null without any. */
export function clearestAlignment(crosses) {
  if (!crosses.length) return null;
  const found = crosses.map(({ site, weights }) => {
    const mean = meanOfHeads(weights);
    return { site, mean, clearness: clearness(mean) };
  });
  const best = found.reduce((one, other) => (other.clearness >= one.clearness ? other : one)); // of equal ones the higher layer
  const others = found.filter((each) => each !== best).map(({ site, clearness: value }) => `layer ${site.layer}: ${value.toFixed(2)}`);
  const why = others.length
    ? `its weights are the clearest: sharpness x coverage ${best.clearness.toFixed(2)} (${others.join(", ")})`
    : "it is the only layer with attention to the source";
  return { site: best.site, mean: best.mean, links: bestLinks(best.mean), why };
}

/** The links in the Pharaoh format. */
export function pharaoh(links) {
  return links.map(([source, target]) => `${source}-${target}`).join(" ");
}

/** Rows of weights without the ends of both sequences. */
function inner({ data, shape: [rows, columns] }) {
  return Array.from({ length: rows - 1 }, (_, row) => data.subarray(row * columns, (row + 1) * columns - 1));
}

/** Sharpness, the mean of the greatest weights, times coverage, the mean of what a source token gets, at most 1 each. */
function clearness(mean) {
  const rows = inner(mean);
  if (!rows.length || !rows[0].length) return 0;
  const sharpness = rows.reduce((sum, row) => sum + Math.max(...row), 0) / rows.length;
  const columns = [...rows[0].keys()].map((column) => rows.reduce((sum, row) => sum + row[column], 0));
  return (sharpness * columns.reduce((sum, each) => sum + Math.min(1, each), 0)) / columns.length;
}

/** From each target token to its source token of greatest weight, unless the end has more: [source, target], in order. */
function bestLinks(mean) {
  const found = inner(mean).flatMap((row, target) => {
    const source = row.indexOf(Math.max(...row));
    return row.length && row[source] >= 1 - row.reduce((sum, each) => sum + each, 0) ? [[source, target]] : [];
  });
  return found.sort(([one, first], [other, second]) => one - other || first - second);
}
