// The page of `regard serve`: asks the server that sent it, and nobody else. Texts become text nodes only.

const byId = (id) => document.getElementById(id);
const TASKS = { translate: "Translate", generate: "Continue" };
let models = [];
let shown = "";

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

async function ask(path, body) {
  const key = byId("key").value.trim();
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const options = body ? { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) } : { headers };
  const answer = await fetch(path, options);
  const content = await answer.json();
  if (!answer.ok) {
    if (answer.status === 401 || answer.status === 403) byId("key-field").open = true;
    throw new Error(content.hint ? `${content.error}: ${content.hint}` : content.error);
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

function percent(value) {
  return `${(100 * value).toFixed(value > 0.995 ? 0 : 1)} %`;
}

function tokenSpans(candidate) {
  return candidate.tokens.map((token, place) => {
    const p = Math.exp(candidate.log_probs_of_tokens[place]);
    const level = p > 0.8 ? 0 : p > 0.5 ? 1 : p > 0.2 ? 2 : 3;
    return element("span", { className: `token p${level}`, textContent: token, title: percent(p) });
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
  byId("more").hidden = !candidates.length;
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
    const task = taskOf(model) || "translate";
    const body = task === "translate" ? { text, n_best: count } : { prompt: text, num: count };
    const found = await ask(`api/v1/${task}`, { ...body, model: model.name });
    show(task === "translate" ? found.translations[0].candidates : found.results[0].continuations);
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
