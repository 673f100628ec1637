// Slow resources are computed only on request, because the model can do nothing else meanwhile.
import { button, element } from "../elements.js";

const agreed = new WeakMap(); // the summary of a Look -> the slow resources that were requested

/** Those of these resources that are slow and were not requested yet. */
export function slowOf({ summary }, paths) {
  const asked = agreed.get(summary);
  return paths.filter((path) => summary.slow?.includes(path) && !asked?.has(path));
}

/** A button that requests them and calls `go`. */
export function offer({ source, paths, what, go }) {
  const agree = () => {
    const asked = agreed.get(source.summary) ?? new Set();
    paths.forEach((path) => asked.add(path));
    agreed.set(source.summary, asked);
    go();
  };
  return element("div", { class: "offer" },
    element("p", { class: "hint" }, `${what} takes seconds to minutes for a model of this size and a text of this length. Meanwhile the model answers no other requests.`),
    button("Compute it", agree));
}
