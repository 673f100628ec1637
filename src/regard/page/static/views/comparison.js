// Two answers side by side: with everything on, and with some parts switched off.
import { element } from "../elements.js";
import { number } from "../numbers.js";
import { isWhole } from "../resources.js";
import { token } from "../tokens.js";
import { signed } from "./effects.js";

const whole = new WeakMap(); // source -> its last Look with everything on: {summary, steps}

/** Stores this Look if nothing is switched off in it; returns the one to compare it with, or null. */
export async function remember(source) {
  const { summary } = source;
  if (isWhole(summary)) {
    whole.set(source, { summary, steps: source.has("steps") ? await source.json("steps") : null });
    return null;
  }
  const before = whole.get(source) ?? (isWhole(source.before) ? { summary: source.before, steps: null } : null);
  if (before?.summary.text !== summary.text) return null;
  return { ...before, now: source.has("steps") ? await source.json("steps") : null };
}

/** The two answers with their difference; null if there is nothing to compare. */
export function comparison(source, before) {
  if (!before) return null;
  const [old, next] = [before.summary.answer, source.summary.answer];
  if (!old || !next) return null;
  return element(
    "section", { class: "compared new", tabindex: -1, aria: { label: "Old and new answer" } },
    element("h3", {}, "What changed"),
    difference(old, next),
    element("div", { class: "pair" },
      side("Everything on", old, before.steps, null),
      side("Switched off", next, before.now, before.steps)),
  );
}

function difference(old, next) {
  if (typeof next.log_prob !== "number") return null;
  const change = next.log_prob - old.log_prob;
  const same = old.text === next.text;
  const words = same
    ? `The answer is the same; its log-probability changes by ${signed(change)} nats (${number(Math.exp(change), 3)} times as likely).`
    : `Another answer. Its log-probability under the changed model is ${number(next.log_prob, 2)} nats; that of the old answer under the full model was ${number(old.log_prob, 2)} (difference ${signed(change)}).`;
  return element("p", {}, words);
}

function side(title, answer, steps, others) {
  return element("div", {}, element("h4", {}, title), body(answer, steps, others));
}

function body(answer, steps, others) {
  if (answer.labels) return list(answer.labels.map(({ label, probability }) => [label, probability]));
  if (answer.tags) return list(answer.tags.map(({ token: word, tag, probability }) => [`${word}: ${tag}`, probability]));
  return [
    element("p", { class: "reply" }, element("bdi", { dir: "auto" }, answer.text || "(nothing)")),
    element("p", { class: "hint" }, `log-probability ${number(answer.log_prob, 3)} nats, score ${number(answer.score, 3)}`),
    steps && element("ol", { class: "steps" }, steps.map((step, i) => {
      const new_ = others && others[i]?.id !== step.id;
      return element("li", { class: new_ ? "changed" : null }, token(step.token), element("small", {}, `${new_ ? "≠ " : ""}${number(step.log_prob, 2)}`));
    })),
  ];
}

function list(pairs) {
  return element("ol", { class: "bars" }, pairs.map(([name, probability]) => element("li", {},
    token(name),
    element("span", { class: "bar", aria: { hidden: "true" } }, element("span", { style: { width: `${(100 * probability).toFixed(1)}%` } })),
    element("span", { class: "value" }, number(probability)))));
}
