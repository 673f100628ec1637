// Positional encodings: the vectors of positions, or the bias of attention scores.
import { canvas } from "../canvas.js";
import { INK, diverging, headColour, sequential, theme } from "../colour.js";
import { controls, element, fill, select } from "../elements.js";
import { figure } from "../figure.js";
import { at, rows } from "../npy.js";
import { number } from "../numbers.js";
import { seriesDash } from "../strokes.js";
import { drawing, group, line, path, room, scaled, text, ticks } from "../svg.js";

const SCHEMES = {
  sinusoidal: "Sinusoidal: fixed waves are added to the embeddings.",
  learned: "Learned: a trained vector for each position is added to the embedding.",
  rotary: "Rotary: queries and keys are rotated by an angle that grows with the position.",
  alibi: "ALiBi: each head subtracts a multiple of the distance from its scores.",
  t5: "T5: each head adds a trained number for each range of distances to its scores.",
  none: "None: this model has no information about positions.",
};
const WAVES = 6; // dimensions in the second chart, at most

export default {
  name: "positions",
  title: "Positions",
  about: "Attention alone ignores the order of tokens. Position encodings tell the model their order.",
  possible: ({ resources }) => resources.includes("positions"),

  async draw(root, { source, state, signal }) {
    const about = await source.json("positions");
    const got = await Promise.all(["table", "similarity", "bias"].map((name) =>
      (source.has(`positions/${name}`) ? source.array(`positions/${name}`) : null)));
    if (signal.aborted) return;
    const [table, similarity, bias] = got;
    const waves = element("div");
    const wide = room(root);
    const showWaves = () => table && fill(waves, wavesOf(table, state, wide));
    showWaves();
    state.listen((event) => event.detail.keys.includes("wave") && showWaves(), { signal });
    fill(root,
      element("p", { class: "lead" }, SCHEMES[about.scheme] ?? about.scheme),
      about.note && element("p", { class: "hint" }, about.note),
      table && [element("h3", {}, "The vectors"), heat("positions", "Each row is a position, each column a dimension; blue is positive, orange negative.",
        table, { signed: true, down: "position", across: "dimension", most: wide })],
      table && [element("h3", {}, "The same as waves"), waves],
      similarity && [element("h3", {}, "Similarity of positions"), heat("position-similarity",
        "How similar the vectors of two positions are: a stronger colour means more similar.", similarity, { down: "position", across: "position", most: Math.min(570, wide) })],
      bias && [element("h3", {}, "Bias added to the scores"), biases(bias, wide)]);
  },
};

/** A matrix as a map of colours, with its scale beside it. */
function heat(name, caption, matrix, { signed = false, down, across, most }) {
  const [height, width] = matrix.shape;
  const { low, high } = extremes(matrix.data);
  const top = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const [from, to] = signed ? [-top, top] : [low, high];
  const colour = signed
    ? (value, paper) => diverging(value / top, paper)
    : (value, paper) => sequential((value - low) / (high - low || 1), paper);
  const [left, head, foot, side] = [56, 8, 44, 92];
  const size = { wide: Math.min(signed ? 24 : 14, (most - left - side) / width), tall: Math.min(14, 420 / height) };
  if (!signed || size.wide < size.tall) size.wide = size.tall = Math.max(1, Math.floor(Math.min(size.wide, size.tall))); // squares
  const [wide, tall] = [size.wide * width, size.tall * height];
  const chart = canvas(left + wide + side, head + tall + foot, (pen) => {
    const paper = theme(pen.canvas);
    const shade = (value) => colour(value, paper);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(painted(matrix, shade), left, head, wide, tall);
    pen.fillStyle = INK[paper];
    pen.font = "13px system-ui, sans-serif";
    pen.textAlign = "end";
    for (const tick of whole(height)) pen.fillText(String(tick), left - 8, head + (tick + 0.5) * size.tall + 4);
    pen.textAlign = "center";
    for (const tick of whole(width)) pen.fillText(String(tick), left + (tick + 0.5) * size.wide, head + tall + 17);
    pen.fillText(across, left + wide / 2, head + tall + 36);
    pen.save();
    pen.translate(13, head + tall / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(down, 0, 0);
    pen.restore();
    scale(pen, shade, from, to, { x: left + wide + 18, y: head, length: Math.min(160, tall) });
  });
  return figure({
    name, caption, chart,
    table: () => ({
      columns: [down, ...Array.from({ length: width }, (_, i) => ({ label: `${across} ${i}`, digits: 3 }))],
      rows: rows(matrix).map((row, i) => [`${down} ${i}`, ...row]),
    }),
  });
}

/** Whole numbers along an axis of `size` places. */
function whole(size) {
  return ticks(0, size - 1, 5).filter(Number.isInteger);
}

function scale(pen, colour, from, to, { x, y, length }) {
  for (let i = 0; i < length; i++) {
    pen.fillStyle = colour(to - (i / (length - 1)) * (to - from));
    pen.fillRect(x, y + i, 12, 1.5);
  }
  pen.fillStyle = INK[theme(pen.canvas)];
  pen.textAlign = "start";
  pen.fillText(number(to, 2), x + 18, y + 11);
  pen.fillText(number(from, 2), x + 18, y + length);
}

function painted({ data, shape: [height, width] }, colour) {
  const image = document.createElement("canvas");
  image.width = width;
  image.height = height;
  const pen = image.getContext("2d");
  for (let i = 0; i < height; i++) {
    for (let j = 0; j < width; j++) {
      pen.fillStyle = colour(data[i * width + j]);
      pen.fillRect(j, i, 1, 1);
    }
  }
  return image;
}

function extremes(data) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of data) {
    if (value < low) low = value;
    if (value > high && Number.isFinite(value)) high = value;
  }
  return { low, high };
}

/** Some dimensions of the table as lines over the positions, beginning with the chosen one. */
function wavesOf(table, state, wide) {
  const [length, d] = table.shape;
  const first = Math.min(d - 1, Math.max(0, state.number("wave", 0)));
  const shown = Array.from({ length: Math.min(WAVES, d) }, (_, i) => (first + i * Math.max(1, Math.floor(d / 12))) % d);
  const starts = Array.from({ length: Math.min(d, 64) }, (_, i) => i);
  const series = shown.map((dimension) => ({
    name: `dimension ${dimension}`,
    values: rows(table).map((row) => row[dimension]),
  }));
  return [
    controls(select({ label: "First dimension", options: starts.map(String), value: String(first), onchange: (wave) => state.set("wave", wave === "0" ? null : wave) })),
    lines("position-waves", "The value of some dimensions at each position.", series, length, "position", wide),
  ];
}

/** One line for each head: the bias of a score by the key's distance. */
function biases(bias, wide) {
  const [heads, length] = bias.shape;
  const series = Array.from({ length: heads }, (_, head) => ({
    name: `head ${head}`,
    values: Array.from(at(bias, head, length - 1).data).reverse(),
  }));
  return lines("position-bias", "The bias that each head adds to a score, by the distance of the key from the last token.", series, length, "distance", wide);
}

function lines(name, caption, series, length, across, wide) {
  const beside = wide > 560; // else the legend is below
  const [left, height, step] = [52, wide > 1200 ? 320 : 240, 22];
  const width = wide - left - (beside ? 180 : 12);
  const [keyLeft, keyTop] = beside ? [left + width + 20, 16] : [left, height + 64];
  const { low, high } = extremes(series.flatMap(({ values }) => values.filter(Number.isFinite)));
  const [x, y] = [scaled([0, Math.max(1, length - 1)], [left, left + width]), scaled([low, high], [height - 8, 8])];
  const axis = [
    ticks(low, high, 4).map((tick) => [line(left, y(tick), left + width, y(tick), { class: "rule" }), text(left - 8, y(tick) + 4, String(tick).replace("-", "−"), { anchor: "end", class: "soft" })]),
    ticks(0, length - 1, 6).map((tick) => text(x(tick), height + 14, String(tick), { anchor: "middle", class: "soft" })),
    text(left + width / 2, height + 34, across, { anchor: "middle", class: "soft" }),
  ];
  const marks = series.map(({ name: title, values }, i) => {
    const dash = seriesDash(i);
    const points = values.map((value, at) => `${x(at).toFixed(1)},${y(Number.isFinite(value) ? value : low).toFixed(1)}`);
    const key = keyTop + i * step;
    return group({},
      path(`M${points.join("L")}`, { stroke: headColour(i), "stroke-width": 2, "stroke-dasharray": dash }),
      line(keyLeft, key - 4, keyLeft + 28, key - 4, { stroke: headColour(i), "stroke-width": 2, "stroke-dasharray": dash }),
      text(keyLeft + 36, key, title));
  });
  return figure({
    name, caption,
    chart: drawing(beside ? left + width + 180 : wide, Math.max(height + 42, keyTop + series.length * step), group({}, axis), marks),
    table: () => ({
      columns: [across, ...series.map(({ name: title }) => title)],
      rows: Array.from({ length }, (_, i) => [String(i), ...series.map(({ values }) => values[i] ?? null)]),
    }),
  });
}
