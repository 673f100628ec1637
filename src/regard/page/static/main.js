// The page around the views: header, list of views, and what all views share.
import { redrawCanvases } from "./canvas.js";
import { button, element, fill } from "./elements.js";
import { counted } from "./numbers.js";
import { asked, askedBy } from "./question.js";
import { numbered, visible } from "./tokens.js";
import { tourCard, tourButton } from "./tour.js";
import ablation from "./views/ablation.js";
import alignment from "./views/alignment.js";
import answer from "./views/answer.js";
import architecture from "./views/architecture.js";
import arithmetic from "./views/arithmetic.js";
import attribution from "./views/attribution.js";
import beam from "./views/beam.js";
import grid from "./views/grid.js";
import heads from "./views/heads.js";
import lens from "./views/lens.js";
import matrix from "./views/matrix.js";
import neighbours from "./views/neighbours.js";
import patches from "./views/patches.js";
import positions from "./views/positions.js";
import rollout from "./views/rollout.js";
import sampler from "./views/sampler.js";

export const GROUPS = [
  ["The answer", [answer, sampler, beam]],
  ["Attention", [patches, heads, grid, matrix, alignment, arithmetic, rollout]],
  ["Importance", [ablation, attribution, lens]],
  ["The model", [positions, neighbours, architecture]],
];
const SCROLL_BAR = 24; // pixels; no scroll bar is wider
const KINDS = {
  encoder_decoder: "encoder and decoder", decoder_only: "decoder", encoder_only: "encoder",
  recurrent: "recurrent, with attention", vision: "vision",
};

/** Shows the page in `root`: the resources of `source`, as `state` selects. Returns a function that removes it. */
export function start(root, source, state) {
  root.classList.add("regard");
  const parts = {
    header: element("header", { class: "top" }),
    nav: element("nav", { class: "views", aria: { label: "Views" } }),
    banner: element("div", { class: "banner", role: "status" }),
    main: element("main", { class: "view", id: state.linked ? "view" : null, tabindex: "-1" }),
    tour: element("div", { class: "guide" }),
    footer: footer(state),
  };
  const skip = state.linked
    && element("a", { class: "skip", href: "#view", on: { click: (event) => (event.preventDefault(), parts.main.focus()) } }, "Skip to the view");
  fill(root, skip, parts.header, parts.nav, parts.banner, parts.main, parts.footer, parts.tour);
  const page = { root, source, state, parts, drawing: null, width: 0, waiting: null };

  const relook = () => {
    if (state.linked) state.set("ask", asked(source.request));
    frame(page);
    draw(page);
  };
  const life = new AbortController();
  const { signal } = life;
  window.addEventListener("look", (event) => event.detail.source === source && relook(), { signal });
  state.listen((event) => changed(page, event.detail.keys), { signal });
  matchMedia("print").addEventListener("change", () => redrawCanvases(root), { signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(page), { signal });
  relook();
  const watcher = new ResizeObserver(() => resized(page));
  watcher.observe(parts.main);
  return () => {
    life.abort();
    watcher.disconnect();
    clearTimeout(page.waiting);
    page.drawing.abort();
    root.replaceChildren();
  };
}

function changed(page, keys) {
  if (keys.includes("ask") && page.state.get("ask") !== asked(page.source.request)) {
    page.source.ask(askedBy(page.state)).catch((problem) => console.error(problem)); // the browser's back button, to another Look
  }
  if (keys.some((key) => ["view", "theme", "tour", "toured"].includes(key))) frame(page);
  if (keys.some((key) => ["view", "theme"].includes(key))) draw(page);
  if (!keys.includes("view")) return;
  if (page.state.get("tour")) page.root.scrollIntoView({ block: "start" }); // the tour's card keeps the keyboard
  else page.parts.main.focus();
}

/** The views for which this Look has resources. */
function possible(source) {
  const { summary } = source;
  return GROUPS.map(([title, views]) => [title, views.filter((view) => summary && (elsewhere(summary, view) || view.possible(summary)))])
    .filter(([, views]) => views.length);
}

/** True if only `regard look` computes this view, for a Look that the page's own model made. */
function elsewhere(summary, view) {
  return Boolean(summary?.elsewhere?.includes(view.name));
}

function current({ source, state }) {
  const views = possible(source).flatMap(([, found]) => found);
  return views.find((view) => view.name === state.get("view")) ?? views[0] ?? answer;
}

function frame(page) {
  const { root, source, state, parts } = page;
  const theme = state.get("theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  else delete root.dataset.theme;
  fill(parts.header, brand(source.summary), element("div", { class: "tools" }, source.summary && tourButton(state), themes(state)));
  fill(parts.nav, navigation(page));
  fill(parts.banner, banner(page));
  fill(parts.tour, tourCard(state, possible(source).flatMap(([, views]) => views)));
}

function brand(summary) {
  const facts = summary && [
    KINDS[summary.model.kind] ?? summary.model.kind,
    `${counted(summary.model.parameters)} parameters`,
    `width ${summary.model.d_model}`,
  ];
  return element(
    "div",
    { class: "brand" },
    element("h1", {}, "regard", summary && element("bdi", { dir: "auto" }, visible(summary.model.name))),
    facts && element("p", {}, facts.join(" · ")),
  );
}

function themes(state) {
  const order = [null, "light", "dark"];
  const now = order.indexOf(state.get("theme"));
  const next = order[(Math.max(0, now) + 1) % 3];
  const names = { light: "light", dark: "dark", null: "as the system" };
  return button(`Theme: ${names[order[Math.max(0, now)]]}`, () => state.set("theme", next), { class: "quiet" });
}

function navigation(page) {
  const { source, state, parts } = page;
  const here = current(page);
  const opener = button(here.title, () => {
    const open = parts.nav.toggleAttribute("data-open");
    opener.setAttribute("aria-expanded", String(open));
  }, { class: "opener", aria: { expanded: parts.nav.hasAttribute("data-open") } });
  const go = (view) => (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab
    event.preventDefault();
    parts.nav.removeAttribute("data-open");
    state.set("view", view.name);
  };
  const lists = possible(source).map(([title, views]) =>
    element(
      "section",
      {},
      element("h2", {}, title),
      element("ul", {}, views.map((view) => {
        const marked = { aria: { current: view === here ? "page" : null }, on: { click: go(view) } };
        return element("li", {}, state.linked
          ? element("a", { href: state.href({ view: view.name }), ...marked }, view.title)
          : element("button", { type: "button", ...marked }, view.title));
      })),
    ),
  );
  return [opener, element("div", { class: "lists" }, lists)];
}

/** What is switched off in this Look, with a button to switch it on again, and which attentions have no weights. */
function banner({ source }) {
  const without = (source.summary?.without_weights ?? []).map(({ name, why }) =>
    element("p", {}, element("strong", {}, `No weights of ${visible(name)}: `), visible(why)));
  return [switchedOff(source), ...without];
}

function switchedOff(source) {
  const { changes, sequences } = source.summary ?? {};
  if (!changes) return null;
  const tokens = (sequences.source ?? sequences.text ?? sequences.read)?.tokens ?? [];
  const off = [
    ...Object.entries(changes.heads ?? {}).filter(([, heads]) => heads.length)
      .map(([name, heads]) => `${name}: ${heads.length > 1 ? "heads" : "head"} ${heads.join(", ")}`),
    ...(changes.layers ?? []),
    ...(changes.tokens ?? []).map((position) => `token ${numbered(tokens[position] ?? "", position)}`),
  ];
  if (!off.length) return null;
  const restore = source.live && button("Switch all on again", () => source.ask(source.whole()));
  return element("p", {}, element("strong", {}, "Switched off in this run: "), visible(off.join(" · ")), " ", restore);
}

function footer(state) {
  const to = (view, label) => {
    const go = { on: { click: (event) => (event.preventDefault(), state.set("view", view)) } };
    return state.linked
      ? element("a", { href: state.href({ view }), ...go }, label)
      : element("button", { type: "button", class: "link", ...go }, label);
  };
  return element(
    "footer",
    {},
    element("p", {}, "Attention weights are not explanations: ", to("ablation", "ablation"), " and ",
      to("attribution", "attribution"), " measure what the answer needs."),
    element("p", {}, "This model computed every number here. The page loads nothing from the network."),
  );
}

/** Redraws charts when the window has a new width and rests. A change by a scroll bar's width does not count. */
/** Draws again for a new width, but not for paper: it would be printed half drawn, and drawn once more for the screen. */
function resized(page) {
  clearTimeout(page.waiting);
  page.waiting = setTimeout(() => {
    const change = Math.abs(page.parts.main.clientWidth - page.width);
    if (change > SCROLL_BAR && !matchMedia("print").matches) draw(page);
  }, 200);
}

async function draw(page) {
  const { source, state, parts } = page;
  page.width = parts.main.clientWidth;
  page.drawing?.abort();
  const drawing = (page.drawing = new AbortController());
  const view = current(page);
  const body = element("div", { class: `body of-${view.name}` });
  const focused = parts.main.contains(document.activeElement) && document.activeElement.dataset.focus;
  fill(parts.main, element("h2", {}, view.title), element("p", { class: "about" }, view.about), body);
  if (state.linked) document.title = source.summary ? `${view.title} · ${visible(source.summary.model.name)}` : "regard";
  parts.main.setAttribute("aria-busy", "true");
  try {
    if (elsewhere(source.summary, view)) fill(body, runRegard());
    else await view.draw(body, { source, state, signal: drawing.signal });
  } catch (problem) {
    if (!drawing.signal.aborted) fill(body, element("p", { role: "alert" }, `This view could not be drawn: ${problem.message}`));
    console.error(problem);
  } finally {
    if (page.drawing === drawing) {
      parts.main.removeAttribute("aria-busy");
      if (focused) refocus(parts.main, focused);
    }
  }
}

function runRegard() {
  return element("p", {}, "The model in this page cannot compute this view for a new text: that needs ", element("code", {}, "regard look"), ".");
}

/** Keeps the keyboard focus when elements are redrawn: on the element with the same `data-focus`. */
function refocus(root, name) {
  const same = [...root.querySelectorAll("[data-focus]")].find((node) => node.dataset.focus === name);
  (same ?? root).focus({ preventScroll: true });
}
