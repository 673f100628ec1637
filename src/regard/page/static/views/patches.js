// Attention over an image: the patches with little weight are faded.
import { canvas } from "../canvas.js";
import { INK, PAPER, headColour, sequential, theme } from "../colour.js";
import { button, checkbox, element, select } from "../elements.js";
import { figure } from "../figure.js";
import { number } from "../numbers.js";
import { picture } from "../picture.js";
import { sight } from "../svg.js";
import { numbered, visible } from "../tokens.js";
import { choiceTitle, picker, redrawn, refill } from "./picker.js";
import { stage } from "./stage.js";
import { chosenAttention, chosenHead, headOf, matrixOf, wholeNumber } from "./weights.js";

const GAP = 24;

export default {
  name: "patches",
  title: "Patches",
  about: "The image, cut into patches as the model reads it. Patches that the chosen position attends to stay visible; the map next to the image has the weights.",
  possible: (summary) => Boolean(summary.image) && summary.resources.includes("image"),
  async draw(root, { source, state, signal }) {
    const keys = ["part", "layer", "head", "row", "rolled"];
    await redrawn({ state, signal, keys, draw: (own) => drawn(root, { source, state, signal: own }) });
  },
};

async function drawn(root, { source, state, signal }) {
  const { summary } = source;
  const attention = chosenAttention(summary, state);
  const head = chosenHead(attention, state);
  const rolled = state.get("rolled") === "1" && source.has("rollout/encoder");
  const weights = rolled ? matrixOf(await source.array("rollout/encoder")) : headOf(await source.array(`attention/${attention.name}`), head);
  const image = picture(await source.array("image"));
  if (signal.aborted) return;
  const looking = wholeNumber(state, "row", weights.rows, 0);
  const { tokens } = summary.sequences.text;
  const title = rolled ? "rollout through all layers" : choiceTitle(attention, head);
  refill(
    root,
    picker({
      summary, state,
      more: [
        select({ label: "Looking", value: looking, options: tokens.map((text, place) => [place, numbered(text, place)]), onchange: (row) => state.set("row", row) }),
        source.has("rollout/encoder") && checkbox({ label: "Through all layers (rollout)", checked: rolled, onchange: (on) => state.set("rolled", on ? "1" : null) }),
      ],
    }),
    overlay({ root, summary, state, weights, image, looking, title }),
  );
}

function overlay({ root, summary, state, weights, image, looking, title }) {
  const { rows, columns, before } = summary.image;
  const { tokens } = summary.sequences.text;
  const row = weights.row(looking);
  const most = Math.max(...row.subarray(before), 1e-9);
  const side = Math.max(120, Math.min(sight(), Math.floor(((root.clientWidth || 720) - GAP - 8) / 2)));
  const [wide, high] = [side, Math.round((side * rows) / columns)];
  const cell = wide / columns;
  let pointed = null;

  const chart = canvas(2 * side + GAP, high, (pen) => {
    const paper = theme(pen.canvas);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(image, 0, 0, wide, high);
    for (let place = 0; place < rows * columns; place++) {
      const [x, y] = [(place % columns) * cell, Math.floor(place / columns) * cell];
      const share = row[before + place] / most;
      pen.globalAlpha = 0.9 * (1 - share);
      pen.fillStyle = PAPER[paper];
      pen.fillRect(x, y, cell, cell);
      pen.globalAlpha = 1;
      pen.fillStyle = sequential(share, paper);
      pen.fillRect(side + GAP + x, y, cell - 1, cell - 1);
    }
    if (looking >= before) framed(pen, looking - before, INK[paper], 3);
    if (pointed) framed(pen, pointed.row * columns + pointed.column, headColour(1, paper), 3);
  });

  function framed(pen, place, colour, width) {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    for (const left of [0, side + GAP]) pen.strokeRect(left + (place % columns) * cell, Math.floor(place / columns) * cell, cell, cell);
  }

  const at = ({ row: down, column: across }) => before + down * columns + across;
  const open = (patch) => patch && state.set("row", at(patch));
  const field = stage({
    label: `The image and its weights: ${title}. The arrow keys move over the patches, Enter chooses one as the query.`,
    chart,
    size: { rows, columns },
    locate: (event) => {
      const box = chart.getBoundingClientRect();
      const scale = (2 * side + GAP) / box.width;
      const [x, y] = [((event.clientX - box.left) * scale) % (side + GAP), (event.clientY - box.top) * scale];
      const found = { row: Math.floor(y / cell), column: Math.floor(x / cell) };
      return found.row >= 0 && found.row < rows && found.column >= 0 && found.column < columns ? found : null;
    },
    onPoint: (patch) => {
      pointed = patch;
      chart.redraw();
      return patch ? `“${visible(tokens[looking])}” attends to the patch ${tokens[at(patch)]} with ${number(row[at(patch)], 4)}` : "";
    },
    onChoose: (patch) => state.set("column", at(patch)),
    onOpen: open,
  });
  const shown = figure({
    name: `patches-${looking}`,
    caption: `Attention of “${visible(tokens[looking])}” (${title}). Patches are named by row and column; the largest weight is ${number(most, 4)}.`,
    chart: field,
    table: () => ({
      columns: ["patch", { label: "weight", digits: 4 }],
      rows: tokens.map((text, place) => [numbered(text, place), row[place]]),
    }),
  });
  shown.append(element("div", { class: "opens" },
    button("Use the patch under the pointer as the query", () => open(pointed)), element("span", { class: "hint" }, "or Enter, or a double click on it")));
  return shown;
}
