// The costs of a model's modules for any lengths: each number that depends on them is a polynomial.

const LEAST = 2; // tokens: a sequence of one has no mask, and other costs

/** The resource of a table in which {polynomial: [1, s, t, s^2, s t, t^2]} stands for a number; null if there is none. */
export function architecture(table, { source, read }) {
  const [s, t] = [source?.ids.length ?? LEAST, read.ids.length];
  if (!table || Math.min(s, t) < LEAST) return null;
  return evaluated(table, [1, s, t, s * s, s * t, t * t]);
}

function evaluated(value, terms) {
  if (Array.isArray(value)) return value.map((each) => evaluated(each, terms));
  if (value === null || typeof value !== "object") return value;
  if (value.polynomial) return value.polynomial.reduce((sum, factor, place) => sum + factor * terms[place], 0);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, evaluated(each, terms)]));
}
