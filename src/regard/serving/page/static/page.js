// The page of `regard serve`: asks the server that sent it, and nobody else. Texts become text nodes only.

import { Alignment } from "./alignment.js";
import { element, levelOf, percent } from "./elements.js";

const byId = (id) => document.getElementById(id);
const TASKS = { translate: "Translate", generate: "Continue" };
let models = [];
let shown = "";
const alignment = new Alignment({
  section: byId("alignment"), source: byId("source-words"), target: byId("target-words"), line: byId("word"),
});

async function ask(path, body) {
  const key = byId("key").value.trim();
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const options = body ? { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) } : { headers };
  const answer = await fetch(path, options);
  const content = await answer.json();
  if (!answer.ok) {
    if (answer.status === 401 || answer.status === 403) byId("key-field").open = true;
    const error = new Error(content.hint ? `${content.error}: ${content.hint}` : content.error);
    throw Object.assign(error, { parameter: content.parameter });
  }
  return content;
}

function report(text, failed = false) {
  byId("state").textContent = text;
  byId("state").classList.toggle("failed", failed);
}

function taskOf(model) {
  return Object.keys(TASKS).find((task) => model.tasks.includes(task));
}

function chosen() {
  return models.find((model) => model.name === byId("model").value);
}

async function listModels() {
  try {
    models = (await ask("api/v1/models")).models.filter((model) => !model.loaded || taskOf(model));
  } catch (error) {
    report(error.message, true);
    return;
  }
  const options = models.map((model) => element("option", { value: model.name, textContent: model.name }));
  byId("model").replaceChildren(...options);
  changeModel();
  report(models.length ? "" : "no model of this server translates or generates", !models.length);
}

function changeModel() {
  const model = chosen();
  const task = (model && taskOf(model)) || "translate";
  byId("send").textContent = TASKS[task];
  byId("text-label").textContent = task === "translate" ? "Text" : "Prompt";
  byId("text").lang = (model && model.source_language) || "";
  byId("answer").lang = (model && model.target_language) || "";
  byId("source-words").lang = byId("text").lang;
  byId("target-words").lang = byId("answer").lang;
  linkToLook();
}

/** The text goes along in the fragment, which no server gets. */
function linkToLook() {
  const address = chosen()?.look;
  const text = byId("text").value;
  byId("look").hidden = !address;
  if (address) byId("look").href = `.${address}` + (text ? `#ask=${encodeURIComponent(JSON.stringify({ text }))}` : "");
}

function probability(candidate) {
  const logs = candidate.token_log_probs;
  return logs.length ? Math.exp(logs.reduce((sum, each) => sum + each, 0) / logs.length) : 1;
}

function tokenSpans(candidate) {
  return candidate.tokens.map((token, place) => {
    const p = Math.exp(candidate.log_probs_of_tokens[place]);
    return element("span", { className: `token p${levelOf(p)}`, textContent: token, title: percent(p) });
  });
}

function show(candidates) {
  const [best] = candidates;
  shown = best ? best.text : "";
  byId("answer").textContent = shown;
  byId("download").disabled = !shown;
  byId("candidates").replaceChildren(
    ...candidates.map((each) =>
      element("li", {}, element("span", { className: "confidence", textContent: percent(probability(each)) }),
        element("bdi", {}, ...tokenSpans(each))),
    ),
  );
  byId("tokens").replaceChildren(
    ...(best ? best.tokens : []).map((token, place) =>
      element("tr", {}, element("td", { textContent: token }),
        element("td", { textContent: percent(Math.exp(best.log_probs_of_tokens[place])) })),
    ),
  );
  alignment.show(best);
  byId("more").hidden = !candidates.length;
}

/** The candidates of a translation; with alignments, unless the model has none. */
async function translations(body, aligns) {
  try {
    const found = await ask("api/v1/translate", aligns ? { ...body, alignments: true } : body);
    return found.translations[0].candidates;
  } catch (error) {
    if (!aligns || error.parameter !== "alignments") throw error;
    return translations(body, false);
  }
}

async function send(event) {
  event.preventDefault();
  const model = chosen();
  const text = byId("text").value;
  if (!model || byId("send").disabled) return;
  const count = Number(byId("count").value) || 1;
  byId("send").disabled = true;
  report("the model answers");
  const begun = performance.now();
  try {
    if (taskOf(model) === "generate") {
      const found = await ask("api/v1/generate", { prompt: text, num: count, model: model.name });
      show(found.results[0].continuations);
    } else {
      show(await translations({ text, n_best: count, model: model.name }, model.aligns !== false));
    }
    report(`answered in ${((performance.now() - begun) / 1000).toFixed(2)} s`);
  } catch (error) {
    report(error.message, true);
  } finally {
    byId("send").disabled = false;
  }
}

function download() {
  const url = URL.createObjectURL(new Blob([`${shown}\n`], { type: "text/plain;charset=utf-8" }));
  element("a", { href: url, download: "answer.txt" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

byId("ask").addEventListener("submit", send);
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send(event);
});
byId("text").addEventListener("input", linkToLook);
byId("model").addEventListener("change", changeModel);
byId("key").addEventListener("change", listModels);
byId("download").addEventListener("click", download);
listModels();
