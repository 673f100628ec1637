// Ablation: the change of the answer's log-probability when a head, a layer or a source token is switched off.
import { element, select } from "../elements.js";
import { redrawn, refill } from "./picker.js";
import { effectFigure } from "./effects.js";
import { comparison, remember } from "./comparison.js";
import { offer, slowOf } from "./slow.js";
import { switches } from "./switches.js";

const KINDS = { heads: "heads", layers: "layers", tokens: "tokens" };

export default {
  name: "ablation",
  title: "Ablation",
  about: "How much less likely the same answer becomes when one head, layer or token is switched off. A part with little effect was not needed, even if its attention weights are large.",
  possible: (summary) => summary.resources.includes("ablation"),
  async draw(root, { source, state, signal }) {
    const slow = slowOf(source, ["ablation"]).length > 0;
    const ablation = slow ? null : await source.json("ablation");
    const before = await remember(source);
    if (signal.aborted) return;
    const context = { source, state, signal, ablation, before };
    const place = element("div");
    root.append(comparison(source, before) ?? "", place);
    if (source.switchable) root.append(switches(context));
    const show = () => redrawn({ state, signal, keys: ["ablated"], draw: () => bars(place, root, context) });
    const compute = async () => {
      context.ablation = await source.json("ablation");
      if (!signal.aborted) show();
    };
    if (ablation) show();
    else refill(place, offer({ source, paths: ["ablation"], what: "Switching off each head, layer and token", go: compute }));
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
