// Beam search as a tree: every prefix that was kept, every one that was dropped, and their scores.
import { checkbox, element, fill } from "../elements.js";
import { figure } from "../figure.js";
import { number } from "../numbers.js";
import { token, visible } from "../tokens.js";
import { redrawn, refill } from "./picker.js";
import { stage } from "./stage.js";
import { MARKS, treeDrawing } from "./tree.js";

const WORDS = { best: "the answer", ended: "finished, not the best", live: "kept", dropped: "dropped" };
const CALM = 120; // with at most so many nodes the dropped ones are shown by default

export default {
  name: "beam",
  title: "Beam",
  about: "Beam search as a tree: each step keeps the hypotheses with the best scores and drops the others.",
  possible: (summary) => summary.resources.includes("beam"),
  async draw(root, { source, state, signal }) {
    const beam = await source.json("beam");
    if (signal.aborted) return;
    redrawn({ state, signal, keys: ["dropped"], draw: () => drawn(root, { beam, state }) });
  },
};

function drawn(root, { beam, state }) {
  const wanted = state.get("dropped", beam.nodes.length <= CALM ? "1" : "0") === "1";
  const nodes = wanted ? beam.nodes : beam.nodes.filter((node) => node.state !== "dropped");
  const tree = grown(nodes);
  const dropped = beam.nodes.filter((node) => node.state === "dropped").length;
  const path = element("div", { class: "path" });
  const chart = treeDrawing(tree, root.clientWidth || 720);
  const best = tree.order.findLast((node) => node.state === "best") ?? tree.order[0];
  const at = (node) => ({ row: node.line, column: node.step, id: node.id });
  const field = stage({
    label: "Beam tree. Left leads to the parent, right to the best child, up and down to the others of the same step.",
    chart: chart.node,
    size: { rows: tree.lines, columns: tree.steps },
    locate: (event) => {
      const found = chart.locate(event);
      return found && at(found);
    },
    at: at(best),
    walk: (key, from) => at(walked(key, tree.byId.get((from ?? at(best)).id), tree)),
    onPoint: (place) => {
      const node = tree.byId.get((place ?? at(best)).id);
      chart.point(node);
      fill(path, pathOf(node, tree));
      return sentence(node, tree);
    },
    onChoose: ({ id }) => chart.reveal(id),
  });
  const shown = figure({
    name: "beam",
    caption: `A beam of ${beam.beam_size}: ${beam.nodes.length} hypotheses, ${dropped} of them dropped${wanted ? "" : " (not shown)"}. ${Object.entries(MARKS).map(([state_, mark]) => `${mark} ${WORDS[state_]}`).join(", ")}.`,
    chart: field,
    table: () => ({
      columns: ["node", "step", { label: "token", kind: "token" }, "log-probability", "total", "score", "state", "parent"],
      rows: beam.nodes.map((node) => [node.id, node.step, node.token, node.log_prob, node.total, node.score, WORDS[node.state], node.parent ?? "–"]),
      onMove: (row) => tree.byId.has(beam.nodes[row].id) && field.point(at(tree.byId.get(beam.nodes[row].id))),
    }),
  });
  refill(
    root,
    dropped > 0 && element("div", { class: "controls" }, checkbox({ label: `Show the ${dropped} dropped hypotheses`, checked: wanted, onchange: (on) => state.set("dropped", on ? "1" : "0") })),
    shown,
    path,
  );
}

/** The nodes as a tree with its layout: {byId, order, lines, steps}; a node gets `children` (best first) and `line`. */
export function grown(nodes) {
  const byId = new Map(nodes.map((node) => [node.id, { ...node, children: [], line: 0, wins: node.state === "best" }]));
  const roots = [];
  for (const node of byId.values()) (byId.get(node.parent)?.children ?? roots).push(node);
  for (const node of [...byId.values()].reverse()) {
    node.wins ||= node.children.some((child) => child.wins); // children come after their parents
    node.reach = Math.max(node.step, ...node.children.map((child) => child.reach));
  }
  const better = (a, b) => b.wins - a.wins || b.reach - a.reach || b.score - a.score;
  for (const node of byId.values()) node.children.sort(better);
  const lines = placed(roots.sort(better));
  return { byId, order: [...byId.values()], lines, steps: Math.max(0, ...nodes.map((node) => node.step)) + 1 };
}

/**
 * Gives each node its line: a node's best child is in its parent's line, and each other child begins the first line below
 * that is free for its whole length. The longest are placed first, so that they are near the top.
 */
function placed(roots) {
  const taken = []; // the occupied steps of each line
  const waiting = roots.map((node) => ({ node, above: -1 }));
  while (waiting.length) {
    waiting.sort((a, b) => b.node.wins - a.node.wins || b.node.reach - b.node.step - (a.node.reach - a.node.step) || a.node.step - b.node.step);
    const { node, above } = waiting.shift();
    const chain = [];
    for (let here = node; here; here = here.children[0]) chain.push(here);
    let line = above + 1;
    while (chain.some(({ step }) => taken[line]?.has(step))) line += 1;
    taken[line] ??= new Set();
    for (const one of chain) {
      one.line = line;
      taken[line].add(one.step);
      waiting.push(...one.children.slice(1).map((child) => ({ node: child, above: line })));
    }
  }
  return taken.length;
}

function walked(key, node, tree) {
  if (key === "ArrowLeft") return tree.byId.get(node.parent) ?? node;
  if (key === "ArrowRight") return node.children[0] ?? node;
  const peers = tree.order.filter((other) => other.step === node.step).sort((a, b) => a.line - b.line);
  const place = peers.indexOf(node) + (key === "ArrowUp" ? -1 : 1);
  return peers[place] ?? node;
}

/** The node and its ancestors, beginning with the first. */
export function lineage(node, byId) {
  const path = [];
  for (let here = node; here; here = byId.get(here.parent)) path.unshift(here);
  return path;
}

function sentence(node, tree) {
  const words = lineage(node, tree.byId).map((one) => visible(one.token)).join(" ");
  return `${words}: ${WORDS[node.state]} at step ${node.step}; this token ${number(node.log_prob)}, total ${number(node.total)}, score ${number(node.score)} (nats)`;
}

function pathOf(node, tree) {
  return element("ol", { class: "steps" }, lineage(node, tree.byId).map((one) =>
    element("li", {}, token(one.token), element("small", {}, number(one.log_prob, 2)))));
}
