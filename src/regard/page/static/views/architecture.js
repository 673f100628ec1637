// The model's architecture: the tree of its modules, with their parameters, shapes and costs for this text.
import { button, controls, element, fill } from "../elements.js";
import { figure } from "../figure.js";
import { bytes, counted, percent } from "../numbers.js";
import { drawing, group, rect, room, text, textWidth, titled } from "../svg.js";

const DEPTH = 4; // levels of modules in the chart

export default {
  name: "architecture",
  title: "Architecture",
  about: "The modules of this model, with the shapes, parameters and operations of this run.",
  possible: ({ resources }) => resources.includes("architecture"),

  async draw(root, { source, signal }) {
    const { tree, totals } = await source.json("architecture");
    if (signal.aborted) return;
    const boxes = element("ul", { class: "modules" }, branch(tree, tree, 0));
    const all = (open) => boxes.querySelectorAll("details").forEach((one) => { one.open = open; });
    fill(
      root,
      element("dl", { class: "totals" }, Object.entries(TOTALS).filter(([key]) => totals[key] !== null && totals[key] !== undefined)
        .map(([key, [title, words]]) => element("div", {}, element("dt", {}, title), element("dd", {}, words(totals[key]))))),
      figure({
        name: "architecture",
        caption: "The parameters by module: each row is one level deeper, the width of a box is its share.",
        chart: icicle(tree, room(root)),
        table: () => ({
          columns: ["module", "type", "output", "parameters", "FLOPs"],
          rows: flat(tree).map(({ path, node }) => [path, node.type, shape(node.output), node.parameters, node.flops]),
        }),
      }),
      element("h3", {}, "Module by module"),
      controls(button("Open all", () => all(true)), button("Close all", () => all(false))),
      boxes,
    );
  },
};

const TOTALS = {
  parameters: ["Parameters", counted],
  flops: ["Operations, this text", (value) => `${counted(value)}FLOP`.replace(/ (\w)FLOP/, " $1FLOP")],
  cache_bytes: ["Key-value cache", bytes],
  activation_bytes: ["Activations", bytes],
};

function shape(sizes) {
  return sizes?.length ? sizes.join(" × ") : "–";
}

function branch(node, tree, depth, parent = null) {
  const facts = [
    node.parameters > 0 && `${counted(node.parameters)} parameters, ${percent(node.parameters / (tree.parameters || 1))}`,
    node.flops > 0 && `${counted(node.flops)} FLOPs`,
    node.output?.length && `output ${shape(node.output)}`,
  ].filter(Boolean);
  const title = [element("strong", {}, label(node, parent)), node.name ? [" ", element("code", {}, node.type)] : null,
    element("small", {}, facts.join(" · "))];
  if (!node.children?.length) return element("li", {}, element("div", { class: "leaf" }, title));
  return element("li", {}, element("details", { open: depth < 1 },
    element("summary", {}, element("span", {}, title)),
    element("ul", {}, node.children.map((child) => branch(child, tree, depth + 1, node)))));
}

/** A module's name under its parent: "self_attention" of "encoder.blocks.0.self_attention". */
function label({ name, type }, parent) {
  const before = parent?.name ? `${parent.name}.` : "";
  return (before && name.startsWith(before) ? name.slice(before.length) : name) || type;
}

function flat(node, parent = null, above = "") {
  const path = [above, label(node, parent)].filter(Boolean).join(".");
  const inside = parent ? path : ""; // the model's own path is not part of its modules' paths
  return [{ path, node }, ...(node.children ?? []).flatMap((child) => flat(child, node, inside))];
}

/** An icicle chart: boxes below their parents, with widths in proportion. */
function icicle(tree, width) {
  const row = 44;
  const marks = [];
  const add = (node, parent, x, share, level) => {
    if (level >= DEPTH || share < 1.5 || !(node.parameters > 0)) return;
    const name = label(node, parent);
    const words = `${name}: ${counted(node.parameters)} parameters`;
    const long = textWidth(name) + 14 < share;
    marks.push(titled(group({},
      rect(x + 0.75, level * row + 0.75, share - 1.5, row - 1.5, { class: `cell level-${level}`, rx: 3 }),
      long && text(x + 9, level * row + (share > 90 ? 19 : 27), name, {}),
      long && share > 90 && text(x + 9, level * row + 35, counted(node.parameters), { class: "soft" })), words));
    let from = x;
    for (const child of node.children ?? []) {
      const part = share * (child.parameters / node.parameters);
      add(child, node, from, part, level + 1);
      from += part;
    }
  };
  add(tree, null, 0, width, 0);
  return drawing(width, Math.min(DEPTH, depth(tree)) * row, marks);
}

function depth(node) {
  return 1 + Math.max(0, ...(node.children ?? []).map(depth));
}
