// The alternatives of a token. If the model is available, choosing one forces it and generates the rest again.
import { button, element, fill } from "../elements.js";
import { percent } from "../numbers.js";
import { token } from "../tokens.js";
import { ask } from "./asking.js";

const SHOWN = 10;

/** The candidates at `place`, the most probable first; each is a button if the model is available. */
export function alternatives({ source, state, steps, place }) {
  const step = steps[place];
  const ids = source.summary.sequences.written.ids;
  const list = element("ol");
  const said = element("p", { class: "said", role: "status" });
  const choose = (candidate) =>
    ask({ source, state, said, body: { text: source.summary.text, prefix_ids: [...ids.slice(0, place), candidate.id] } });
  const show = (count) => {
    fill(list, step.candidates.slice(0, count).map((candidate) => item(candidate, candidate.id === step.id, source.live && choose)));
    if (count < step.candidates.length) {
      list.append(element("li", { class: "more" }, button(`${step.candidates.length - count} more`, () => {
        show(step.candidates.length);
        list.children[count]?.querySelector("button")?.focus();
      }, { class: "quiet" })));
    }
  };
  show(SHOWN);
  return [
    element("h3", {}, `Token ${place}: `, token(step.token)),
    element("p", { class: "hint" }, `Entropy ${step.entropy.toFixed(2)} nats. `, source.live
      ? "Choose another token: the model continues from there."
      : "This is a saved page. In the live page you can choose another token, and the model continues from there."),
    list, said,
  ];
}

function item(candidate, written, choose) {
  const probability = Math.exp(candidate.log_prob);
  const inside = [
    token(candidate.token),
    element("span", { class: "meter" }, element("span", { style: { width: `${100 * probability}%` } })),
    element("span", { class: "share" }, percent(probability)),
  ];
  if (written || !choose) {
    return element("li", { class: written ? "written" : null }, element("div", { class: "option" }, inside, written && element("small", {}, "written")));
  }
  return element("li", {}, element("button", {
    type: "button", class: "option", data: { focus: `option-${candidate.id}` }, on: { click: () => choose(candidate) },
  }, inside));
}
