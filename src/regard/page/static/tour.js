// A walk through the views in at most ten steps: it can be left at any of them and taken up again there.
import { button, element } from "./elements.js";

const STEPS = [
  ["answer", "What it wrote", "Each token is shaded by the probability that the model gave it. Choose one to see what else it thought of."],
  ["beam", "What it nearly wrote", "The search kept a few beginnings alive at a time. Each one that died is here, with the score it died at."],
  ["heads", "Where it looked", "Every line is a weight from a token to one that it looks at. Each head of each layer looks in its own way."],
  ["grid", "All heads at once", "Sort the heads by what they do: some look one token back, some at the end, some at the same word again."],
  ["alignment", "Which word became which", "The heads that look from the answer to the source draw an alignment. Follow one word across."],
  ["arithmetic", "How one weight is made", "A query, a key, their product, a scale, a mask, a softmax: one cell of attention with this model's own numbers."],
  ["lens", "When it knew", "Each layer, read as if it were the last: here one sees at which depth the answer appears."],
  ["ablation", "What mattered", "A head that looks at a word need not use it. Switch it off: only what then changes was needed."],
  ["sampler", "What chance would do", "Temperature, top-k and top-p bend the distribution before a token is drawn from it. Move them."],
  ["architecture", "What it is made of", "Every module with its shapes, parameters and operations, read from the model itself."],
];

/** The steps whose views this Look has. */
function route(views) {
  const names = new Set(views.map((view) => view.name));
  return STEPS.filter(([name]) => names.has(name));
}

export function tourButton(state) {
  const left = state.number("toured");
  if (state.get("tour") !== null) return null;
  const label = left ? `Go on with the tour (${left})` : "Take the tour";
  return button(label, () => state.set({ tour: left ?? 1, toured: null, view: null }), { class: "quiet" });
}

/** The card of the step that `state` is at; nothing when there is no tour on. It leads the page to its view. */
export function tourCard(state, views) {
  const steps = route(views);
  const at = Math.min(steps.length, Math.max(1, state.number("tour", 0)));
  if (state.get("tour") === null || !steps.length) return null;
  const [view, title, words] = steps[at - 1];
  const away = state.get("view") !== view;
  const go = (step) => state.set({ tour: step, view: steps[step - 1][0] });
  if (away) queueMicrotask(() => state.get("tour") === String(at) && state.set("view", view));
  const next = at < steps.length
    ? button("Next", () => go(at + 1), { class: "primary" })
    : button("Done", () => state.set({ tour: null, toured: null }), { class: "primary" });
  const card = element(
    "aside",
    { class: "tour", aria: { label: "Guided tour" }, on: { keydown: (event) => event.key === "Escape" && leave() } },
    element("p", { class: "count" }, `${at} of ${steps.length}`),
    element("h2", {}, title),
    element("p", { aria: { live: "polite" } }, words),
    element("div", { class: "controls" },
      at > 1 && button("Back", () => go(at - 1)), next,
      at < steps.length && button("Leave the tour", leave, { class: "quiet" })),
  );
  function leave() {
    state.set({ tour: null, toured: at });
  }
  queueMicrotask(() => next.isConnected && next.focus({ preventScroll: true }));
  return card;
}
