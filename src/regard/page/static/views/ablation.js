// What changes when a head, a layer or a source token is switched off: the answer's own log-probability says so.
import { element, select } from "../elements.js";
import { redrawn, refill } from "./picker.js";
import { effectFigure } from "./effects.js";
import { comparison, remember } from "./comparison.js";
import { switches } from "./switches.js";

const KINDS = { heads: "heads", layers: "layers", tokens: "tokens" };

export default {
  name: "ablation",
  title: "Ablation",
  about: "Switch one thing off and see how much less likely the same answer becomes. What hardly changes was not needed, however strongly it looked.",
  possible: (summary) => summary.resources.includes("ablation"),
  async draw(root, { source, state, signal }) {
    const ablation = source.has("ablation") ? await source.json("ablation") : null;
    const before = await remember(source);
    if (signal.aborted) return;
    const context = { source, state, signal, ablation, before };
    const place = element("div");
    root.append(comparison(source, before) ?? "", place);
    if (source.live) root.append(switches(context));
    redrawn({ signal, keys: ["ablated"], draw: () => bars(place, root, context) });
    root.querySelector(".compared.new")?.focus();
  },
};

function bars(place, root, { source, state, ablation }) {
  const kinds = Object.keys(KINDS).filter((kind) => ablation[kind]?.length);
  const kind = kinds.includes(state.get("ablated")) ? state.get("ablated") : kinds[0];
  refill(
    place,
    element("div", { class: "controls" }, select({
      label: "Switch off, one at a time", value: kind, options: kinds, onchange: (value) => state.set("ablated", value),
    })),
    effectFigure({ kind, ablation, summary: source.summary, state, width: root.clientWidth || 720 }),
  );
}
