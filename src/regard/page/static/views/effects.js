// The bars of an ablation: the change by each head, layer or token, the greatest first.
import { diverging } from "../colour.js";
import { checkbox, element } from "../elements.js";
import { figure } from "../figure.js";
import { drawing, group, line, rect, text, textWidth } from "../svg.js";
import { number } from "../numbers.js";
import { numbered, shortened } from "../tokens.js";
import { inDrawing, stage } from "./stage.js";

const HIGH = 24;
const MOST = 30; // bars that are drawn by default

/** The sequence whose tokens are switched off. */
export function ablatedSequence(summary) {
  return ["source", "text", "read"].find((name) => name in summary.sequences);
}

/** The figure of one kind of effects: "heads", "layers" or "tokens". */
export function effectFigure({ kind, ablation, summary, state, width }) {
  const effects = named(kind, ablation, summary).sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
  let all = effects.length <= MOST + 5;
  const shown = () => (all ? effects : effects.slice(0, MOST));
  const holder = element("div");
  const result = figure({
    name: `ablation-${kind}`,
    caption: `Change of the answer's log-probability (${number(ablation.baseline, 2)} nats in this run) when one of the ${kind} is switched off. Bars to the left: the answer became less likely, so this part was needed.`,
    chart: holder,
    table: () => ({
      columns: [kind.replace(/s$/, ""), { label: "change (nats)", digits: 4 }, { label: "times as likely", digits: 4 }],
      rows: effects.map(({ name, change }) => [name, change, Math.exp(change)]),
      onMove: (row) => row < shown().length && holder.firstChild.point?.({ row, column: 0 }),
    }),
  });
  const draw = () => holder.replaceChildren(pointedBars(shown(), kind, state, width), ...(effects.length > MOST + 5
    ? [checkbox({ label: `Show all ${effects.length}`, checked: all, onchange: (on) => ((all = on), draw(), holder.querySelector("input")?.focus()) })]
    : []));
  draw();
  return result;
}

function named(kind, ablation, summary) {
  if (kind === "layers") return ablation.layers.map(({ name, change }) => ({ name: blockTitle(name), change }));
  if (kind === "tokens") {
    const { tokens } = summary.sequences[ablatedSequence(summary)];
    return ablation.tokens.map(({ position, change }) => ({ name: numbered(tokens[position], position), change, cell: { column: position } }));
  }
  return ablation.heads.map(({ name, head, change }) => {
    const attention = summary.attentions.find((one) => one.name === name);
    const title = attention ? `${attention.part} ${attention.layer}, head ${head}` : `${name}, head ${head}`;
    return { name: title, change, cell: attention && { part: attention.part, layer: attention.layer, head } };
  });
}

/** "encoder.blocks.2.self_attention" as "encoder 2, self attention". */
export function blockTitle(name) {
  const found = /^(?:(\w+)\.)?blocks\.(\d+)(?:\.(\w+))?$/.exec(name);
  if (!found) return name;
  const [, stack, number_, part] = found;
  return `${stack ?? "block"} ${number_}${part ? `, ${part.replaceAll("_", " ")}` : ""}`;
}

function pointedBars(effects, kind, state, width) {
  const chart = barsDrawing(effects, width - 4);
  return stage({
    label: `Bars of change. Up and down choose one of the ${kind}${kind === "heads" ? ", Enter opens its matrix" : ""}.`,
    chart: chart.node,
    size: { rows: effects.length, columns: 1 },
    locate(event) {
      const row = Math.floor((inDrawing(chart.node, event).y - 24) / HIGH);
      return row >= 0 && row < effects.length ? { row, column: 0 } : null;
    },
    onPoint(place) {
      chart.point(place?.row ?? null);
      if (!place) return "";
      const { name, change } = effects[place.row];
      return `Without ${name}: ${number(change)} nats, the answer is ${number(Math.exp(change), 3)} times as likely`;
    },
    onOpen: kind === "heads" && (({ row }) => effects[row].cell && state.set({ ...effects[row].cell, view: "matrix" })),
  });
}

function barsDrawing(effects, width) {
  const left = 12 + Math.min(width * 0.42, Math.max(...effects.map(({ name }) => textWidth(shortened(name, 26)))));
  const most = Math.max(1e-6, ...effects.map(({ change }) => Math.abs(change)));
  const low = Math.max(0, ...effects.map(({ change }) => -change)) / most;
  const high = Math.max(0, ...effects.map(({ change }) => change)) / most;
  const numbers = 74; // room for a bar's number at its end, and for the words above
  const room = width - left - (low > 0 ? numbers : 0) - (high > 0 ? numbers : 0) - 6;
  const unit = room / (low + high || 1);
  const zero = left + (low > 0 ? numbers : 0) + low * unit;
  const bars = effects.map(({ name, change }, i) => {
    const y = 24 + i * HIGH;
    const wide = Math.max(1, (Math.abs(change) / most) * unit);
    const shade = Math.sign(change) * (0.4 + (0.45 * Math.abs(change)) / most);
    const end = change < 0 ? zero - wide - 5 : zero + wide + 5;
    return group({},
      text(left - 10, y + 16.5, shortened(name, 26), { anchor: "end" }),
      rect(change < 0 ? zero - wide : zero, y + 4, wide, HIGH - 8, { rx: 2, fill: diverging(shade) }),
      text(end, y + 16.5, signed(change), { anchor: change < 0 ? "end" : "start", class: "soft" }));
  });
  const marker = rect(1, 0, width - 2, HIGH, { rx: 4, class: "marker", visibility: "hidden" });
  const height = 24 + effects.length * HIGH + 4;
  const node = drawing(width, height,
    low > 0 && text(zero - 8, 14, "less likely", { anchor: "end", class: "soft" }), high > 0 && text(zero + 8, 14, "more likely", { class: "soft" }),
    line(zero, 20, zero, height - 2, { class: "axis" }), bars, marker);
  return {
    node,
    point(row) {
      marker.setAttribute("visibility", row === null ? "hidden" : "visible");
      if (row !== null) marker.setAttribute("y", 24 + row * HIGH);
    },
  };
}

/** "+0.12", "−1.30". */
export function signed(value) {
  return `${value > 0 ? "+" : ""}${number(value, 2)}`;
}
