// The attention and head that the reader has chosen, and their weights as a matrix; used by the attention views.

/** The parts of a model, in the order of the data. */
export const PARTS = [
  { part: "encoder", title: "encoder" },
  { part: "decoder", title: "decoder" },
  { part: "cross", title: "cross (decoder to source)" },
];

/** The value of `head` that stands for the mean of all heads. */
export const MEAN = "mean";

/** The attention that the state names by part and layer; by default the aligning one, else the first. */
export function chosenAttention(summary, state) {
  const part = state.get("part");
  const ofPart = summary.attentions.filter((attention) => attention.part === part);
  const layer = wholeNumber(state, "layer");
  return (
    ofPart.find((attention) => attention.layer === layer) ??
    ofPart[0] ??
    summary.attentions.find((attention) => attention.name === summary.alignment?.name) ??
    summary.attentions[0]
  );
}

/** The chosen head: its number, or MEAN. A number that this attention does not have is its first head. */
export function chosenHead(attention, state) {
  const asked = state.get("head");
  if (asked === MEAN) return MEAN;
  return wholeNumber(state, "head", attention.num_heads, 0);
}

/** A whole number from 0 up, below `end`, under `key` of the state; else `fallback`. */
export function wholeNumber(state, key, end = Infinity, fallback = null) {
  const number = state.number(key);
  return Number.isInteger(number) && number >= 0 && number < end ? number : fallback;
}

/** The tokens of a sequence of this Look. */
export function tokensOf(summary, name) {
  return summary.sequences[name].tokens;
}

/** A matrix: `values` row after row. */
export class Matrix {
  constructor(rows, columns, values) {
    this.rows = rows;
    this.columns = columns;
    this.values = values;
  }

  at(row, column) {
    return this.values[row * this.columns + column];
  }

  row(row) {
    return this.values.subarray(row * this.columns, (row + 1) * this.columns);
  }

  column(column) {
    return Float32Array.from({ length: this.rows }, (_, row) => this.at(row, column));
  }

  /** The matrix divided by its largest value, so that the colour scale ends there. */
  largestAsOne() {
    let most = 0;
    for (const value of this.values) most = Math.max(most, value);
    return new Matrix(this.rows, this.columns, this.values.map((value) => (most > 0 ? value / most : 0)));
  }

  /** These of the rows, in this order. */
  ofRows(places) {
    const values = new Float32Array(places.length * this.columns);
    places.forEach((place, i) => values.set(this.row(place), i * this.columns));
    return new Matrix(places.length, this.columns, values);
  }

  /** One row: the mean of all. */
  meanOfRows() {
    const values = new Float32Array(this.columns);
    this.values.forEach((value, i) => (values[i % this.columns] += value / this.rows));
    return new Matrix(1, this.columns, values);
  }

  /** Max-pooled to at most `most` rows and columns, so that a thin line stays visible. */
  pooled(most) {
    const step = Math.ceil(Math.max(this.rows, this.columns) / most);
    if (step <= 1) return this;
    const [rows, columns] = [Math.ceil(this.rows / step), Math.ceil(this.columns / step)];
    const values = new Float32Array(rows * columns).fill(-Infinity);
    for (let row = 0; row < this.rows; row++) {
      const start = Math.floor(row / step) * columns;
      for (let column = 0; column < this.columns; column++) {
        const place = start + Math.floor(column / step);
        values[place] = Math.max(values[place], this.values[row * this.columns + column]);
      }
    }
    return new Matrix(rows, columns, values);
  }

  /** Each row divided by its largest value, so that rows of small weights are visible too. */
  rowsScaled() {
    const values = new Float32Array(this.values.length);
    for (let row = 0; row < this.rows; row++) {
      const own = this.row(row);
      let most = 0;
      for (const value of own) most = Math.max(most, value);
      if (most > 0) for (let column = 0; column < this.columns; column++) values[row * this.columns + column] = own[column] / most;
    }
    return new Matrix(this.rows, this.columns, values);
  }
}

/** The matrix of one head of an array [heads, rows, columns], or their mean. */
export function headOf(array, head) {
  const [heads, rows, columns] = array.shape;
  const size = rows * columns;
  if (head !== MEAN) return new Matrix(rows, columns, array.data.subarray(head * size, (head + 1) * size));
  const values = new Float32Array(size);
  for (let which = 0; which < heads; which++) {
    const start = which * size;
    for (let i = 0; i < size; i++) values[i] += array.data[start + i] / heads;
  }
  return new Matrix(rows, columns, values);
}

/** An array [rows, columns] as a matrix. */
export function matrixOf(array) {
  return new Matrix(array.shape[0], array.shape[1], array.data);
}

/** The name of an attention on the page: "cross, layer 3", counted from 0 as in the library. */
export function attentionTitle(attention) {
  return `${attention.part}, layer ${attention.layer}`;
}

/** "head 3", counted from 0 as layers are, or "mean of 8 heads". */
export function headTitle(attention, head) {
  if (attention.num_heads === 1) return "its only head";
  return head === MEAN ? `mean of ${attention.num_heads} heads` : `head ${head}`;
}

/**
 * The rows or columns of an attention as an axis: {title, short, tokens, special, after}. A row of attention to the source
 * is named by the token that the decoder writes there; `after` holds the last token read before it (null on other axes).
 */
export function axisOf(summary, attention, side) {
  const name = attention[side];
  const { tokens, special } = summary.sequences[name];
  const written = summary.sequences.written;
  if (attention.part === "cross" && side === "rows" && written?.tokens.length === tokens.length) {
    return { name: "written", title: "written, after the tokens read", short: "written", tokens: written.tokens, special: written.special, after: tokens };
  }
  return { name, title: name, short: name, tokens, special: special ?? [], after: null };
}

const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

/** True if most letters of these tokens belong to a right-to-left script. */
export function runsFromRight(tokens) {
  const letters = tokens.join("").match(/\p{L}/gu) ?? [];
  return letters.filter((letter) => RIGHT_TO_LEFT.test(letter)).length > letters.length / 2;
}
