// The words of a text and of its translation, and which belong together by the model's attention.

import { element, levelOf, percent } from "./elements.js";

const PART = /[\p{L}\p{N}\p{M}]/u;
const WITHOUT_SPACES = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u;
const BEGINS = /^[\s\u2581\u0120]+/; // how tokenisers write a space before a token
const MARKS = /^##|<\/w>$|[\u2581\u0120]/g;
const STEPS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

/** The words that tokens make up: their text, the places of their tokens, whether a space is before them. */
export function wordsOf(tokens) {
  const words = [];
  let last = "";
  tokens.forEach((token, place) => {
    const text = token.replace(MARKS, "").trim();
    const joins =
      words.length && !BEGINS.test(token) && !last.endsWith("</w>") &&
      (token.startsWith("##") || (PART.test(words.at(-1).text.at(-1) ?? "") && PART.test(text[0] ?? "") &&
        !WITHOUT_SPACES.test(text[0]) && !WITHOUT_SPACES.test(words.at(-1).text.at(-1))));
    if (joins) {
      words.at(-1).text += text;
      words.at(-1).places.push(place);
    } else {
      words.push({ text, places: [place], space: BEGINS.test(token) || last.endsWith("</w>") });
    }
    last = token;
  });
  return words;
}

/** For each source word the target words that are linked to it, and the other way round. */
export function linkedWords(links, sources, targets) {
  const of = (words) => new Map(words.flatMap((word, number) => word.places.map((place) => [place, number])));
  const [sourceOf, targetOf] = [of(sources), of(targets)];
  const found = { source: sources.map(() => new Set()), target: targets.map(() => new Set()) };
  for (const [source, target] of links) {
    found.source[sourceOf.get(source)].add(targetOf.get(target));
    found.target[targetOf.get(target)].add(sourceOf.get(source));
  }
  return found;
}

/** Two lists of words, `source` and `target`, and a line about the word that is pointed at. */
export class Alignment {
  constructor({ section, source, target, line }) {
    this.section = section;
    this.lists = { source, target };
    this.line = line;
    for (const side of ["source", "target"]) {
      const list = this.lists[side];
      list.addEventListener("pointerover", (event) => this.point(side, this.numberOf(side, event)));
      list.addEventListener("pointerleave", () => this.point(...this.focused()));
      list.addEventListener("focusin", (event) => this.point(side, this.numberOf(side, event)));
      list.addEventListener("focusout", () => this.point(side, -1));
      list.addEventListener("keydown", (event) => this.move(side, event));
    }
  }

  /** Show a candidate; without an alignment, nothing. */
  show(candidate) {
    const { alignment, tokens, log_probs_of_tokens: logs } = candidate || {};
    this.section.hidden = !alignment || !alignment.links.length;
    if (this.section.hidden) return;
    this.probabilities = logs.map(Math.exp);
    this.tokens = tokens;
    this.words = { source: wordsOf(alignment.source_tokens), target: wordsOf(tokens) };
    this.linked = linkedWords(alignment.links, this.words.source, this.words.target);
    for (const side of ["source", "target"]) this.draw(side);
    this.point("target", -1);
  }

  draw(side) {
    const children = this.words[side].flatMap((word, number) => {
      const level = side === "target" ? levelOf(this.leastOf(word)) : 0;
      const span = element("span", { className: `word p${level}`, textContent: word.text, tabIndex: number ? -1 : 0 });
      span.setAttribute("role", "option");
      span.dataset.number = number;
      return word.space && number ? [" ", span] : [span];
    });
    this.lists[side].replaceChildren(...children);
  }

  leastOf(word) {
    return Math.min(...word.places.map((place) => this.probabilities[place]));
  }

  spans(side) {
    return [...this.lists[side].children];
  }

  numberOf(side, event) {
    const span = event.target.closest("[data-number]");
    return span ? Number(span.dataset.number) : -1;
  }

  focused() {
    for (const side of ["source", "target"]) {
      const number = this.spans(side).indexOf(document.activeElement);
      if (number >= 0) return [side, number];
    }
    return ["target", -1];
  }

  /** Mark a word and those that are linked to it. */
  point(side, number) {
    const other = side === "source" ? "target" : "source";
    const linked = this.linked[side][number] ?? new Set();
    this.spans(side).forEach((span, place) => mark(span, place === number, false));
    this.spans(other).forEach((span, place) => mark(span, false, linked.has(place)));
    this.line.textContent = number < 0 ? "" : this.about(side, number, [...linked]);
  }

  about(side, number, linked) {
    const word = this.words[side][number];
    const others = linked.map((place) => this.words[side === "source" ? "target" : "source"][place].text).join(", ");
    if (side === "source") return others ? `${word.text}: ${others}` : `${word.text}: no word of the answer`;
    const tokens = word.places.map((place) => percent(this.probabilities[place]));
    const confidence = tokens.length > 1 ? `${tokens.join(", ")}, token by token` : tokens[0];
    return `${word.text} (${confidence}): ${others ? `from ${others}` : "from no word of the text"}`;
  }

  move(side, event) {
    const spans = this.spans(side);
    const from = spans.indexOf(document.activeElement);
    const rightToLeft = getComputedStyle(this.lists[side]).direction === "rtl" && event.key.match(/Left|Right/);
    const step = (STEPS[event.key] ?? 0) * (rightToLeft ? -1 : 1);
    const to = event.key === "Home" ? 0 : event.key === "End" ? spans.length - 1 : from + step;
    if (from < 0 || to === from || !spans[to]) return;
    event.preventDefault();
    spans[from].tabIndex = -1;
    spans[to].tabIndex = 0;
    spans[to].focus();
  }
}

function mark(span, isPointed, isLinked) {
  span.classList.toggle("pointed", isPointed);
  span.classList.toggle("linked", isLinked);
  span.setAttribute("aria-selected", String(isPointed || isLinked));
}
