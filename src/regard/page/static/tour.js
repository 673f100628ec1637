// A tour of the views in at most ten steps, which can be left and resumed at any step.
import { button, element } from "./elements.js";

const STEPS = [
  ["answer", "The answer", "The shade of each token shows its probability. Choose one to see its alternatives."],
  ["beam", "Beam search", "The search keeps a few hypotheses at each step. The dropped ones are shown too, with their last score."],
  ["heads", "Attention", "Every line is an attention weight from one token to another. Each head of each layer has its own pattern."],
  ["grid", "All heads", "Sort the heads by their pattern: some attend to the previous token, some to the end, some to earlier copies of the word."],
  ["alignment", "Alignment", "Cross-attention from the answer to the source gives an alignment. Follow one word across."],
  ["arithmetic", "The arithmetic of one weight", "Query, key, product, scale, mask, softmax: one attention weight with this model's own numbers."],
  ["lens", "Logit lens", "The prediction of each layer, as if it were the last, shows at which layer the answer appears."],
  ["ablation", "Ablation", "The answer may not need a head with large weights. Switch the head off and see what changes."],
  ["sampler", "Sampling", "Temperature, top-k and top-p change the distribution before a token is sampled. Move the sliders."],
  ["architecture", "Architecture", "Every module of the model, with its shapes, parameters and operations."],
];

/** The steps whose views this Look has. */
function route(views) {
  const names = new Set(views.map((view) => view.name));
  return STEPS.filter(([name]) => names.has(name));
}

export function tourButton(state) {
  const left = state.number("toured");
  if (state.get("tour") !== null) return null;
  const label = left ? `Continue the tour (${left})` : "Take the tour";
  return button(label, () => state.set({ tour: left ?? 1, toured: null, view: null }), { class: "quiet" });
}

/** The card of the tour's current step in `state`, which also opens the step's view; nothing if there is no tour. */
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
