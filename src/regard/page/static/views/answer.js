// The model's answer, token by token, with probabilities, alternatives, and a way to force one of them.
import { canvas } from "../canvas.js";
import { inkOn, sequential } from "../colour.js";
import { element, fill, roving } from "../elements.js";
import { figure } from "../figure.js";
import { number, percent } from "../numbers.js";
import { picture } from "../picture.js";
import { drawing, group, line, rect, room, scaled, text, ticks, titled, tokenText } from "../svg.js";
import { direction, token, visible } from "../tokens.js";
import { alternatives } from "./alternatives.js";
import { asking } from "./asking.js";

export default {
  name: "answer",
  title: "Answer",
  about: "The output of the model and the probability of each token. Choose a token to see its alternatives.",
  possible: () => true,

  async draw(root, { source, state, signal }) {
    const { summary } = source;
    const place = element("div");
    fill(root, asking({ source, state, signal }), place);
    if (!summary) return;
    const steps = source.has("steps") ? await source.json("steps") : [];
    if (signal.aborted) return;
    if (steps.length) fill(place, written({ source, state, signal, steps, whole: room(root) }));
    else fill(place, await seen(source), ANSWERS.find(([key]) => key in (summary.answer ?? {}))?.[1](summary, room(root)) ?? nothing(summary));
  },
};

/** The image that the model read, if it read one. */
async function seen(source) {
  if (!source.summary.image || !source.has("image")) return null;
  const image = picture(await source.array("image"));
  const side = Math.min(224, Math.max(112, image.width));
  return canvas(side, Math.round((side * image.height) / image.width), (pen) => {
    pen.imageSmoothingEnabled = false;
    pen.drawImage(image, 0, 0, side, Math.round((side * image.height) / image.width));
  });
}

/** An answer of tokens: the tokens, the alternatives of the chosen one, and a chart of them all. */
function written({ source, state, signal, steps, whole }) {
  const { summary } = source;
  const { forced = 0, start = 0 } = summary.answer ?? {};
  const origin = (place) => (place < start ? "given" : place < forced ? "forced" : null);
  const special = summary.sequences.written.special;
  const panel = element("section", { class: "alternatives", aria: { label: "Alternatives" } });
  const chips = steps.map((step, place) => chip(step, place, { origin: origin(place), special: special[place], state }));
  const show = () => {
    const chosen = state.number("row");
    chips.forEach((one, place) => one.setAttribute("aria-expanded", String(place === chosen)));
    fill(panel, steps[chosen] ? alternatives({ source, state, steps, place: chosen }) : element("p", { class: "hint" },
      "Choose a token: its alternatives appear here."));
  };
  state.listen((event) => {
    if (!event.detail.keys.includes("row")) return;
    show();
    panel.scrollIntoView({ block: "nearest" }); // it is far below a long answer
  }, { signal });
  show();
  return [
    element("h3", {}, start > 0 ? "The text and its continuation" : "The answer"),
    roving(element("div", {
      class: "answer", role: "group", aria: { label: "Tokens, by the arrow keys" },
      dir: direction(summary.answer?.text ?? steps.map((step) => step.token).join("")),
    }, chips), chips, state.number("row", 0)),
    legend(summary.answer, forced, start),
    panel,
    chart(steps, special, whole),
  ];
}

function chip(step, place, { origin, special, state }) {
  const probability = Math.exp(step.log_prob);
  const shade = sequential(0.72 * (1 - probability));
  const word = token(step.token, { special });
  const share = element("small", {}, origin && element("span", { class: "unseen" }, `${origin}, `), percent(probability));
  const chosen = () => state.set("row", state.number("row") === place ? null : place);
  return element(
    "button",
    {
      type: "button", class: `chip ${origin ?? ""}`, data: { focus: `chip-${place}` },
      style: { "background-color": shade, color: inkOn(shade) },
      title: `${origin ? `${origin}; ` : ""}${percent(probability)}, ${ranked(step.rank)}`,
      on: { click: chosen },
    },
    word, share,
  );
}

/** "rank 3 of all tokens". */
function ranked(rank) {
  return rank > 1 ? `rank ${rank} of all tokens` : "the most probable token";
}

function legend(answer, forced, start) {
  const facts = [
    answer && `log-probability ${number(answer.log_prob, 2)} nats`,
    answer && `score ${number(answer.score, 2)}`,
    start > 0 && `${start} given by the text (dotted)`,
    forced > start && `${forced - start} forced (dashed)`,
  ].filter(Boolean);
  const shades = [1, 0.75, 0.5, 0.25, 0].map((probability) =>
    element("span", { class: "shade", style: { "background-color": sequential(0.72 * (1 - probability)) } }),
  );
  return element("p", { class: "legend" }, element("span", {}, "certain ", ...shades, " uncertain"), element("span", {}, facts.join(" · ")));
}

/** Bars of probability, with a mark at that of the best alternative. */
function chart(steps, special, whole) {
  const [left, height, foot] = [52, 160, 84];
  const column = Math.max(34, Math.min(120, (whole - left - 12) / steps.length));
  const width = left + column * steps.length + 12;
  const up = scaled([0, 1], [height + 10, 10]);
  const marks = steps.map((step, i) => {
    const probability = Math.exp(step.log_prob);
    const other = step.candidates.find((one) => one.id !== step.id);
    const [x, middle] = [left + i * column + column * 0.18, left + (i + 0.5) * column];
    const bar = rect(x, up(probability), column * 0.64, up(0) - up(probability), { class: "bar", rx: 2 });
    titled(bar, `${visible(step.token)}: ${percent(probability)}`);
    const mark = other && line(x - 3, up(Math.exp(other.log_prob)), x + column * 0.64 + 3, up(Math.exp(other.log_prob)), { class: "mark" });
    if (mark) titled(mark, `${visible(other.token)}: ${percent(Math.exp(other.log_prob))}`);
    const name = tokenText(middle, height + 26, step.token, { anchor: "end", turn: -40, special: special[i], length: 11 });
    return group({}, bar, mark, name);
  });
  const axis = ticks(0, 1, 4).map((tick) =>
    group({}, line(left, up(tick), width, up(tick), { class: "rule" }), text(left - 8, up(tick) + 4, percent(tick), { anchor: "end", class: "soft" })),
  );
  return figure({
    name: "probabilities",
    caption: "The probability of each output token; the line across is the most probable other token.",
    chart: drawing(width, height + foot, axis, marks),
    table: () => ({
      columns: [
        { label: "token", kind: "token" }, { label: "probability", digits: 4 }, { label: "log-probability", digits: 3 },
        { label: "entropy", digits: 3 }, "rank", { label: "best other token", kind: "token" }, { label: "its probability", digits: 4 },
      ],
      rows: steps.map((step) => {
        const other = step.candidates.find((one) => one.id !== step.id);
        return [step.token, Math.exp(step.log_prob), step.log_prob, step.entropy, step.rank, other?.token ?? null,
          other ? Math.exp(other.log_prob) : null];
      }),
    }),
  });
}

const ANSWERS = [
  ["value", ({ answer }) => [element("h3", {}, "The value"), element("p", { class: "answer" }, number(answer.value, 4))]],
  ["labels", ({ answer }, whole) => [element("h3", {}, "The label"), bars("labels", "The probability of each label.", answer.labels.map(
    ({ label, probability }) => [label, probability]), whole)]],
  ["tags", ({ answer }, whole) => [element("h3", {}, "The tags"), tagged(answer.tags, whole)]],
];

function tagged(tags, whole) {
  const chips = tags.map(({ token: word, tag, probability }) => {
    const shade = sequential(0.72 * (1 - probability));
    return element("span", { class: "chip", style: { "background-color": shade, color: inkOn(shade) } }, token(word),
      element("small", {}, visible(tag), " ", percent(probability)));
  });
  return [
    element("p", { class: "answer", dir: direction(tags.map(({ token: word }) => word).join("")) }, chips),
    bars("tags", "The probability of each token's tag.", tags.map(({ token: word, tag, probability }) => [`${visible(word)} ${tag}`, probability]), whole),
  ];
}

/** Named probabilities as bars. */
function bars(name, caption, named, whole) {
  const label = Math.min(190, Math.round(whole * 0.36));
  const [width, row] = [whole - label - 80, 30];
  const marks = named.map(([title, probability], i) => {
    const y = i * row;
    return group({},
      tokenText(label - 10, y + 20, title, { anchor: "end", length: Math.floor(label / 8) }),
      rect(label, y + 5, width, 20, { class: "track", rx: 3 }),
      rect(label, y + 5, width * probability, 20, { class: "bar", rx: 3 }),
      text(label + width + 10, y + 20, percent(probability)));
  });
  return figure({
    name, caption,
    chart: drawing(whole, named.length * row + 6, marks),
    table: () => ({ columns: ["name", { label: "probability", digits: 4 }], rows: named }),
  });
}

function nothing({ sequences }) {
  const [name] = Object.keys(sequences);
  const { tokens, special } = sequences[name];
  return [
    element("h3", {}, "The input"),
    element("p", { class: "answer", dir: direction(tokens.join("")) }, tokens.map((word, i) =>
      element("span", { class: "chip" }, token(word, { special: special[i] })))),
    element("p", { class: "hint" }, "This model has no output text. It turns tokens into vectors, which the other views show."),
  ];
}
