// The nearest neighbours of each token in the model's embedding table.
import { button, controls, element, fill, roving, select } from "../elements.js";
import { figure } from "../figure.js";
import { number } from "../numbers.js";
import { drawing, group, rect, room, text, tokenText } from "../svg.js";
import { numbered, token, visible } from "../tokens.js";

const TITLES = { source: "source", read: "what the decoder has read", written: "answer", text: "text" };

export default {
  name: "neighbours",
  title: "Neighbours",
  about: "The tokens with the most similar embeddings. This is the embedding table, before the model has read any context.",
  possible: ({ resources }) => resources.includes("neighbours"),

  async draw(root, { source, state, signal }) {
    const near = await source.json("neighbours");
    if (signal.aborted) return;
    const names = Object.keys(near);
    const chosen = () => (names.includes(state.get("sequence")) ? state.get("sequence") : names[0]);
    const place = element("div");

    function show() {
      const { tokens, special } = source.summary.sequences[chosen()];
      const at = Math.min(tokens.length - 1, Math.max(0, state.number("column", 0)));
      const words = tokens.map((word, i) =>
        button(token(word, { special: special[i] }), () => state.set("column", i), { pressed: i === at, class: "chip", data: { focus: `word-${i}` } }),
      );
      const focused = root.contains(document.activeElement) && document.activeElement.dataset.focus;
      fill(place,
        names.length > 1 && controls(select({ label: "Tokens of the", value: chosen(), options: names.map((name) => [name, TITLES[name] ?? name]),
          onchange: (name) => state.set({ sequence: name, column: null }) })),
        roving(element("div", { class: "answer", role: "group", aria: { label: "Tokens, by the arrow keys" } }, words), words, at),
        chart(tokens, near[chosen()], at, room(root)));
      if (focused) place.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
    }

    fill(root, place);
    state.listen((event) => event.detail.keys.some((key) => ["sequence", "column"].includes(key)) && show(), { signal });
    show();
  },
};

function chart(tokens, near, at, whole) {
  const left = Math.min(170, Math.round(whole * 0.34));
  const [width, row] = [whole - left - 60, 28];
  const marks = near[at].map(({ token: word, cosine }, i) => {
    const y = i * row;
    return group({},
      tokenText(left - 10, y + 19, word, { anchor: "end", length: Math.floor(left / 8) }),
      rect(left, y + 5, width, 18, { class: "track", rx: 3 }),
      rect(left, y + 5, width * Math.max(0, cosine), 18, { class: "bar", rx: 3 }),
      text(left + width + 10, y + 19, number(cosine, 2)));
  });
  return figure({
    name: `neighbours-${at}`,
    caption: `Nearest to ${numbered(tokens[at], at)}, by cosine similarity of embeddings.`,
    chart: drawing(whole, near[at].length * row, marks),
    table: () => ({
      columns: [{ label: "token", kind: "token" }, ...near[at].flatMap((_, i) => [{ label: `neighbour ${i + 1}`, kind: "token" }, { label: `cosine ${i + 1}` }])],
      rows: tokens.map((word, i) => [numbered(word, i), ...near[i].flatMap(({ token: other, cosine }) => [visible(other), cosine])]),
    }),
  });
}
