// The form with which the reader asks the model: a text, an answer or its beginning to force, a beam size.
import { button, checkbox, element, fill, select } from "../elements.js";
import { direction, visible } from "../tokens.js";

const BEAMS = ["1", "2", "4", "5", "8"];
const drafts = new WeakMap(); // source -> the typed text without an answer yet, which is kept when the view is redrawn

/** The form; in a saved page, a sentence that explains why there is none. */
export function asking({ source, state, signal }) {
  const { summary } = source;
  if (!source.live) {
    return element("div", { class: "asked" },
      element("blockquote", { dir: direction(summary.text) }, visible(summary.text)),
      element("p", { class: "hint" }, "This page was saved for one text. ", element("code", {}, "regard look"),
        " opens the live page for other texts."));
  }
  const writes = !summary || Boolean(summary.sequences.written);
  const said = element("p", { class: "said", role: "status" },
    !summary && source.problem && element("span", { role: "alert" }, source.problem));
  const text = element("textarea", { rows: 2, dir: "auto", spellcheck: "false", maxlength: 20000, data: { focus: "text" } });
  text.value = drafts.get(source) ?? summary?.text ?? "";
  const begin = element("input", { type: "text", dir: "auto", spellcheck: "false", autocomplete: "off", data: { focus: "begin" } });
  begin.value = summary?.answer?.text ?? "";
  const whole = checkbox({ label: "and ends there", checked: false, onchange: () => {} });
  const run = (more = {}) => text.value.trim() && ask({ source, state, said, signal, body: { text: text.value, ...more } });
  const force = () => run(whole.querySelector("input").checked ? { target: begin.value } : { prefix: begin.value });

  const form = element(
    "form",
    { class: "ask", on: { submit: (event) => (event.preventDefault(), run()) } },
    element("label", { class: "field wide" }, element("span", {}, summary?.image ? "Image: FILE:NUMBER, counted from 0" : "Text"), text),
    element("div", { class: "controls" },
      element("button", { type: "submit", class: "primary", data: { focus: "run" } }, "Look"),
      writes && select({
        label: "Beams", value: state.get("beams") ?? "",
        options: [["", "the model's default"], ...BEAMS], onchange: (value) => state.set("beams", value || null),
      })),
    writes && summary && element("details", {},
      element("summary", {}, "Force the answer, or its beginning"),
      element("div", { class: "controls" },
        element("label", { class: "field wide" }, element("span", {}, "The answer begins with"), begin),
        whole, button("Force this", force, { data: { focus: "force" } }))),
    !summary && element("p", { class: "hint" }, "Enter a text. The page shows what the model does with it."),
    said,
  );
  text.addEventListener("input", () => drafts.set(source, text.value));
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
  });
  begin.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // the browser would send the text only
    force();
  });
  return form;
}

let underway = null; // one request at a time: a new one ends the stream of the one before

/** Requests a new Look. Meanwhile the tokens of the answer are shown in `said`. */
export async function ask({ source, state, said, body }) {
  underway?.abort();
  const mine = (underway = new AbortController());
  const beams = state.number("beams");
  const request = { ...kept(source, body), ...(beams ? { beam_size: beams } : {}), ...body };
  fill(said, "The model is writing …");
  try {
    await preview(source, request, said, mine.signal);
    if (mine.signal.aborted) return;
    if (request.text !== source.summary?.text) state.set({ row: null, column: null }); // its cells belong to the old words
    await source.ask(request);
    if (drafts.get(source) === request.text) drafts.delete(source);
  } catch (problem) {
    if (mine.signal.aborted) return;
    fill(said, element("span", { role: "alert" }, problem.message));
  }
}

/** What stays switched off in the next request; tokens only if the text is the same. */
function kept({ summary }, { text }) {
  if (!summary) return {};
  const { heads = {}, layers = [], tokens = [] } = summary.changes ?? {};
  return { changes: { heads, layers, tokens: text === summary.text ? tokens : [] } };
}

async function preview(source, request, said, signal) {
  if (!source.summary?.sequences.written && source.summary) return;
  const growing = element("bdi", { class: "growing", dir: "auto" });
  await source.stream(request, ({ token }) => {
    if (!growing.isConnected) fill(said, growing);
    growing.append(document.createTextNode(visible(token).replaceAll("␣", " ")));
  }, signal);
}
