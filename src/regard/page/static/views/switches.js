// Switches for heads, layers and tokens; all that is off is sent to the model as one request.
import { button, checkbox, element } from "../elements.js";
import { token } from "../tokens.js";
import { ablatedSequence, blockTitle } from "./effects.js";
import { PARTS } from "./weights.js";

/**
 * The switches of this Look, and the button that runs the model again; needs a live source. `before` is the Look with
 * everything on, whose answer can be forced; null if it is this one.
 */
export function switches({ source, state, ablation, before, signal }) {
  const { summary } = source;
  const off = {
    heads: new Map(Object.entries(summary.changes.heads ?? {}).map(([name, heads]) => [name, new Set(heads)])),
    layers: new Set(summary.changes.layers),
    tokens: new Set(summary.changes.tokens),
  };
  const said = element("p", { class: "said", role: "status" });
  const answer = answerText((before ?? source).summary);
  const forced = () => answer !== null && state.get("forced") === "1";
  const run = button("Run the model with these", () => ask(), { class: "primary" });
  const keep = answer !== null && checkbox({
    label: "Force the same answer to see how likely it still is", checked: forced(), onchange: (on) => state.set("forced", on ? "1" : null),
  });

  async function ask() {
    run.disabled = true;
    said.textContent = "The model is running …";
    try {
      await source.ask({ ...source.whole(), ...(forced() ? { target: answer, prefix: null, prefix_ids: null } : {}), changes: changesOf(off) });
    } catch (problem) {
      if (!signal.aborted) said.textContent = `It could not be run: ${problem.message}`;
    } finally {
      run.disabled = false;
    }
  }

  const tell = () => {
    const count = [...off.heads.values()].reduce((sum, heads) => sum + heads.size, 0) + off.layers.size + off.tokens.size;
    said.textContent = count ? `${count} switched off; run the model to see what changes.` : "Everything is on.";
  };
  const node = element("section", { class: "switches", aria: { label: "Switches" } },
    element("h3", {}, "Switch off and run again"),
    element("p", { class: "hint" }, "A pressed switch is on. Choose what to switch off, then run the model."),
    tokenSwitches(summary, off, tell),
    layerSwitches(ablation, off, tell),
    headSwitches(summary, off, tell),
    keep, element("div", { class: "controls" }, run), said);
  return node;
}

function answerText(summary) {
  return typeof summary.answer?.text === "string" ? summary.answer.text : null;
}

function changesOf({ heads, layers, tokens }) {
  const listed = [...heads].filter(([, numbers]) => numbers.size).map(([name, numbers]) => [name, [...numbers].sort((a, b) => a - b)]);
  return { heads: Object.fromEntries(listed), layers: [...layers], tokens: [...tokens].sort((a, b) => a - b) };
}

/** A switch for one member of a set of parts that are off. */
function toggle(label, set, member, tell, words) {
  const node = button(label, () => {
    const on = set.has(member);
    if (on) set.delete(member);
    else set.add(member);
    node.setAttribute("aria-pressed", String(on));
    tell();
  }, { class: "toggle", pressed: !set.has(member), aria: words ? { label: words } : {} });
  return node;
}

function row(title, nodes) {
  return nodes.length > 0 && element("div", { class: "toggles", role: "group", aria: { label: title } }, element("span", { class: "hint" }, title), nodes);
}

function tokenSwitches(summary, off, tell) {
  const { tokens, special } = summary.sequences[ablatedSequence(summary)];
  return row("Tokens", tokens.map((text, i) => !special[i] && toggle(token(text), off.tokens, i, tell)).filter(Boolean));
}

function layerSwitches(ablation, off, tell) {
  const names = (ablation?.layers ?? []).map(({ name }) => name);
  if (!names.length) return null;
  const nodes = names.map((name) => toggle(blockTitle(name), off.layers, name, tell));
  return element("details", { open: off.layers.size > 0 }, element("summary", {}, "Layers"), row("Blocks and their modules", nodes));
}

function headSwitches(summary, off, tell) {
  const all = [...summary.attentions, ...(summary.without_weights ?? [])].sort((one, other) => one.layer - other.layer);
  const rows = PARTS.flatMap(({ part }) => all.filter((attention) => attention.part === part)).map((attention) => {
    if (!off.heads.has(attention.name)) off.heads.set(attention.name, new Set());
    const set = off.heads.get(attention.name);
    const title = `${attention.part} ${attention.layer}`;
    return row(title, Array.from({ length: attention.num_heads }, (_, head) => toggle(String(head), set, head, tell, `${title}, head ${head}`)));
  });
  const some = [...off.heads.values()].some((heads) => heads.size > 0);
  return element("details", { open: some }, element("summary", {}, "Heads"), rows);
}
