// The distribution of sampling with temperature, top-k and top-p, computed in the page from the logits it received.
import { controls, element, fill, select, slider } from "../elements.js";
import { figure } from "../figure.js";
import { at } from "../npy.js";
import { counted, number, percent } from "../numbers.js";
import { drawing, group, rect, room, text, tokenText } from "../svg.js";
import { numbered, shortened } from "../tokens.js";
import { massBeyond, reshaped } from "./distribution.js";

const SHOWN = 20;

export default {
  name: "sampler",
  title: "Sampling",
  about: "How temperature, top-k and top-p change the distribution from which the next token is sampled. The page computes it.",
  possible: ({ resources }) => resources.includes("logits"),

  async draw(root, { source, state, signal }) {
    const [logits, ids, names, steps] = await Promise.all([
      source.array("logits"), source.array("logit_ids"), source.json("logit_tokens"), source.has("steps") ? source.json("steps") : [],
    ]);
    if (signal.aborted) return;
    const { tokens } = source.summary.sequences.written;
    const { vocab_size: vocabulary, kept } = source.summary.logits;
    const settings = {
      temperature: state.number("temperature", 1),
      k: state.number("k", 0),
      p: state.number("p", 1),
    };
    const place = () => Math.min(tokens.length - 1, Math.max(0, state.number("row", 0)));
    const summary = element("p", { class: "said", role: "status" });
    let ordered = null; // the logits at this position, the largest first
    let rest = null; // count and mass of the tokens whose logits were not sent
    let shown = null; // the distribution in the chart
    const chart = barChart(room(root));
    const drawn = figure({
      name: "sampling", caption: "", chart: chart.root,
      table: () => ({
        columns: [{ label: "token", kind: "token" }, { label: "model's probability", digits: 5 }, { label: "for sampling", digits: 5 }, "kept"],
        rows: ordered.map(({ name, plain }, i) => [name, plain, shown.probabilities[i], shown.probabilities[i] > 0 ? "yes" : "no"]),
      }),
    });

    function order() {
      const [values, numbers] = [at(logits, place()).data, at(ids, place()).data];
      const sorted = [...values.keys()].sort((a, b) => values[b] - values[a]);
      const descending = sorted.map((i) => values[i]);
      const best = steps[place()]?.candidates[0]?.log_prob;
      rest = { count: vocabulary - kept, mass: best === undefined || kept === vocabulary ? 0 : massBeyond(descending, best) };
      const plain = reshaped(descending, {}, rest).probabilities;
      ordered = sorted.map((i, rank) => ({ logit: values[i], name: names[numbers[i]] ?? `#${numbers[i]}`, plain: plain[rank] }));
      reshape();
      drawn.refresh(null, `Candidates at token ${numbered(tokens[place()], place())}: pale bars are the model's probabilities, full bars the probabilities for sampling.`);
    }

    function reshape() {
      shown = reshaped(ordered.map(({ logit }) => logit), settings, rest);
      chart.show(ordered, shown.probabilities);
      const even = counted(Number(Math.exp(shown.entropy).toPrecision(3)));
      summary.textContent = `${counted(shown.count)} of ${counted(vocabulary)} tokens can be sampled · entropy ${number(shown.entropy, 2)} nats, `
        + `like ${even} equally probable tokens · the ${SHOWN} shown have ${percent(shown.probabilities.slice(0, SHOWN).reduce((a, b) => a + b, 0))}`;
    }

    function moved(name, value, unset) {
      settings[name] = value;
      reshape();
      state.set(name, value === unset ? null : value);
    }

    const sizes = [0, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000].filter((size) => size < kept); // 0: all of them
    const options = tokens.map((word, i) => [i, numbered(word, i)]);
    const choice = select({ label: "At token", options, value: place(), onchange: (row) => state.set("row", row) });
    fill(
      root,
      controls(choice),
      controls(
        slider({ label: "Temperature", min: -2, max: 2, step: 0.05, value: Math.log(settings.temperature),
          format: (power) => Math.exp(power).toFixed(2),
          oninput: (power) => moved("temperature", Number(Math.exp(power).toFixed(3)), 1) }),
        slider({ label: "Top-k", min: 0, max: sizes.length - 1, step: 1, value: Math.max(0, sizes.indexOf(settings.k)),
          format: (i) => (sizes[i] ? String(sizes[i]) : "all"), oninput: (i) => moved("k", sizes[i], 0) }),
        slider({ label: "Top-p", min: 0.05, max: 1, step: 0.01, value: settings.p, format: (p) => p.toFixed(2),
          oninput: (p) => moved("p", p, 1) }),
      ),
      summary,
      drawn,
      kept < vocabulary && element("p", { class: "hint" }, `The ${counted(kept)} largest of ${counted(vocabulary)} log-probabilities are known one by one. The others are `,
        "known only as a sum: exact at temperature 1 and with top-k, otherwise treated as equal."),
    );
    state.listen((event) => {
      if (!event.detail.keys.includes("row")) return;
      choice.querySelector("select").value = place();
      order();
    }, { signal });
    order();
  },
};

/** Bars that are created once and then updated: a slider may change them a hundred times a second. */
function barChart(whole) {
  const left = Math.min(170, Math.round(whole * 0.34));
  const [width, row] = [whole - left - 100, 26];
  const lines = Array.from({ length: SHOWN }, (_, i) => {
    const y = i * row;
    const parts = {
      plain: rect(left, y + 4, 0, 18, { class: "bar-soft", rx: 3 }),
      bar: rect(left, y + 8, 0, 10, { class: "bar", rx: 2 }),
      share: text(left, y + 18, "", {}),
      name: tokenText(left - 10, y + 18, " ", { anchor: "end", length: 20 }),
    };
    return { ...parts, node: group({}, parts.plain, parts.bar, parts.name, parts.share) };
  });
  return {
    root: drawing(whole, SHOWN * row, lines.map(({ node }) => node)),
    show(ordered, probabilities) {
      lines.forEach(({ node, plain, bar, share, name }, i) => {
        node.setAttribute("display", i < ordered.length ? "inline" : "none");
        if (i >= ordered.length) return;
        plain.setAttribute("width", width * ordered[i].plain);
        bar.setAttribute("width", width * probabilities[i]);
        share.setAttribute("x", left + width * Math.max(probabilities[i], ordered[i].plain) + 8);
        share.textContent = probabilities[i] > 0 ? percent(probabilities[i]) : "excluded";
        share.classList.toggle("soft", probabilities[i] === 0);
        name.classList.toggle("special", probabilities[i] === 0);
        const word = shortened(ordered[i].name, Math.floor(left / 8));
        if (name.textContent !== word) name.textContent = word;
      });
    },
  };
}
