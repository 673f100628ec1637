// The drawing of a beam search: one column a step, one line a hypothesis, the best one at the top.
import { circle, drawing, group, path, rect, text, titled, tokenText, widest } from "../svg.js";
import { visible } from "../tokens.js";
import { inDrawing } from "./stage.js";

/** The sign before a node's token, which shows its state in addition to colour. */
export const MARKS = { best: "★", ended: "■", live: "●", dropped: "×" };

const NODE = { height: 28, down: 36, gap: 26, mark: 34 };
const ORIGIN = { x: 8, y: 30 };

/** {node, locate(event), point(node), reveal(id)} of a tree with its layout (beam.js), within `room` pixels if possible. */
export function treeDrawing(tree, room) {
  const { height, down } = NODE;
  const tokens = tree.order.map((node) => node.token);
  const needed = Math.max(62, Math.min(118, widest(tokens, 12))) + NODE.mark + NODE.gap;
  const across = Math.max(needed, Math.min(240, Math.floor((room - 30) / tree.steps)));
  const width = Math.min(150, across - NODE.gap);
  const x = (node) => ORIGIN.x + 18 + node.step * across;
  const y = (node) => ORIGIN.y + node.line * down;
  const edges = tree.order.map((node) => edge(node, tree.byId.get(node.parent)));
  const boxes = new Map(tree.order.map((node) => [node.id, box(node)]));
  const steps = Array.from({ length: tree.steps }, (_, step) =>
    text(ORIGIN.x + 18 + step * across + width / 2, 16, `step ${step}`, { anchor: "middle", class: "soft" }));
  const chart = drawing(ORIGIN.x + 18 + tree.steps * across, ORIGIN.y + tree.lines * down + 6,
    steps, circle(ORIGIN.x, ORIGIN.y + height / 2, 4, { class: "origin" }), edges, [...boxes.values()]);
  chart.classList.add("beam-tree");

  function edge(node, parent) {
    const [x1, y1] = parent ? [x(parent) + width, y(parent) + height / 2] : [ORIGIN.x, ORIGIN.y + height / 2];
    const [x2, y2] = [x(node), y(node) + height / 2];
    const middle = x1 + (across - width) / 2;
    const drawn = path(`M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`, { class: `edge ${node.wins ? "best" : node.state}` });
    drawn.dataset.node = node.id;
    return drawn;
  }

  function box(node) {
    const kind = node.wins ? "best" : node.state;
    const mark = node.wins && node.state !== "best" ? MARKS.live : MARKS[node.state];
    return titled(group({ class: `node ${kind}` },
      rect(x(node), y(node), width, height, { rx: 6 }),
      text(x(node) + 14, y(node) + 18.5, mark, { anchor: "middle", class: "state-mark" }),
      tokenText(x(node) + 26, y(node) + 18.5, node.token, { length: 12 })), `${visible(node.token)}: log-probability ${node.log_prob.toFixed(3)}, score ${node.score.toFixed(3)}`);
  }

  return {
    node: chart,
    locate(event) {
      const point = inDrawing(chart, event);
      return tree.order.find((node) => point.x >= x(node) && point.x <= x(node) + width && point.y >= y(node) && point.y <= y(node) + height) ?? null;
    },
    point(node) {
      const path_ = new Set();
      for (let here = node; here; here = tree.byId.get(here.parent)) path_.add(here.id);
      for (const [id, one] of boxes) one.classList.toggle("on", path_.has(id));
      for (const one of edges) one.classList.toggle("on", path_.has(Number(one.dataset.node)));
      for (const [id, one] of boxes) one.classList.toggle("here", id === node.id);
    },
    reveal(id) {
      const holder = chart.closest(".drawing");
      const node = tree.byId.get(id);
      if (!holder || !node) return;
      const [from, to] = [x(node), x(node) + width];
      if (from < holder.scrollLeft + 20) holder.scrollLeft = Math.max(0, from - 40);
      else if (to > holder.scrollLeft + holder.clientWidth - 20) holder.scrollLeft = to - holder.clientWidth + 40;
    },
  };
}
