// The mask of an attention as a matrix: which tokens each row may attend to.
import { element } from "../elements.js";
import { figure } from "../figure.js";
import { visible } from "../tokens.js";
import { heatmap, rowWords } from "./heatmap.js";
import { headOf } from "./weights.js";

/** The figure of an attention's mask, collapsed at first; null if there is none. */
export async function maskFigure({ source, attention, head, axes, width }) {
  const path = `mask/${attention.name}`;
  if (!source.has(path)) return null;
  const masks = await source.array(path);
  const mask = headOf(masks, masks.shape[0] === 1 ? 0 : head);
  const may = (row, column) => mask.at(row, column) > 0;
  const map = heatmap({
    matrix: mask, ...axes, width,
    label: `Mask of ${attention.name}`,
    say: ({ row, column }) =>
      `${rowWords(axes.rows, row)} ${may(row, column) ? "may" : "may not"} attend to “${visible(axes.columns.tokens[column])}”`,
  });
  const shown = figure({
    name: `mask-${attention.part}-${attention.layer}`,
    caption: "Dark: allowed. The weights of all other cells are 0.",
    chart: element("div", {}, map.tools, map),
    table: () => ({
      columns: [axes.rows.title, ...axes.columns.tokens.map((text) => ({ label: visible(text), labelKind: "token" }))],
      rows: Array.from({ length: mask.rows }, (_, row) => [visible(axes.rows.tokens[row]), ...Array.from(mask.row(row), (value) => (value > 0 ? "allowed" : "–"))]),
    }),
  });
  return element("details", { class: "mask" }, element("summary", {}, "The mask: what each row may attend to"), shown);
}
