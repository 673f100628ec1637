// The controls that choose an attention and a head; all views read this choice from the state.
import { controls, fill, select } from "../elements.js";
import { MEAN, PARTS, attentionTitle, chosenAttention, chosenHead, headTitle } from "./weights.js";

/** Drop-downs for part, layer and (`heads`) head, with `more` controls after them; a choice goes into the state. */
export function picker({ summary, state, heads = true, more = [] }) {
  const attention = chosenAttention(summary, state);
  const parts = PARTS.filter(({ part }) => summary.attentions.some((one) => one.part === part));
  const layers = summary.attentions.filter((one) => one.part === attention.part);
  return controls(
    parts.length > 1 &&
      select({
        label: "Attention",
        options: parts.map(({ part, title }) => [part, title]),
        value: attention.part,
        onchange: (part) => state.set({ part, layer: null, row: null, column: null }),
      }),
    layers.length > 1 &&
      select({
        label: "Layer",
        options: layers.map(({ layer }) => [layer, `layer ${layer}`]),
        value: attention.layer,
        onchange: (layer) => state.set({ part: attention.part, layer }),
      }),
    heads && attention.num_heads > 1 && headPicker(attention, state),
    more,
  );
}

function headPicker(attention, state) {
  const numbers = Array.from({ length: attention.num_heads }, (_, head) => head);
  return select({
    label: "Head",
    options: [[MEAN, headTitle(attention, MEAN)], ...numbers.map((head) => [head, `head ${head}`])],
    value: chosenHead(attention, state),
    onchange: (head) => state.set({ part: attention.part, layer: attention.layer, head }),
  });
}

/** "cross, layer 3, head 2": the choice in words, for captions. */
export function choiceTitle(attention, head) {
  return `${attentionTitle(attention)}, ${headTitle(attention, head)}`;
}

/**
 * Draws now, and again whenever one of `keys` changes in the state, until `signal` is aborted. `draw` gets its own signal,
 * aborted when the next drawing begins, so that a slow drawing can stop and its listeners are removed.
 */
export function redrawn({ state, signal, keys, draw }) {
  let own = null;
  const again = () => {
    own?.abort();
    own = new AbortController();
    return draw(AbortSignal.any([signal, own.signal]));
  };
  state.listen((event) => event.detail.keys.some((key) => keys.includes(key)) && again(), { signal });
  return again();
}

/** Replaces the children of `root`; the focus of a control moves to the control that replaces it. */
export function refill(root, ...children) {
  const active = root.contains(document.activeElement) ? named(document.activeElement) : null;
  fill(root, ...children);
  if (!active) return;
  [...root.querySelectorAll("select, input, button, [tabindex]")].find((node) => named(node) === active)?.focus({ preventScroll: true });
}

function named(node) {
  const words = node.getAttribute("aria-label") ?? node.closest("label")?.querySelector("span")?.textContent ?? node.textContent;
  return `${node.localName} ${node.type ?? ""} ${words}`;
}
