// The page of an exported model. It asks a worker of its own, in which the model runs. Texts become text nodes only.

import { modelFiles } from "./files.js";

const byId = (id) => document.getElementById(id);
const WORDS = {
  encoder_decoder: { send: "Translate", text: "Text", answer: "Translation", about: "translates each line" },
  decoder_only: { send: "Continue", text: "Beginning", answer: "Text", about: "continues a text" },
  classification: { send: "Classify", text: "Texts", answer: "Classes", about: "finds the class of each line" },
  regression: { send: "Predict", text: "Texts", answer: "Numbers", about: "predicts a number for each line" },
  tokens: { send: "Label", text: "Text", answer: "Words", about: "labels the words of each line" },
  masked_language_model: {
    send: "Fill in", text: "Text", answer: "Words", about: "predicts the words for each [MASK] in a text, most probable first,",
  },
};
let config = null;
let worker = null;
let running = 0; // the number of the request that is being answered
let lastNumber = 0;
const requests = new Map();

function report(text, failed = false) {
  byId("state").textContent = text;
  byId("state").classList.toggle("failed", failed);
}

function megabytes(bytes) {
  return (bytes / 1e6).toFixed(1);
}

function ask(job, fields, { partial = null, transfer = [] } = {}) {
  const number = (lastNumber += 1);
  worker.postMessage({ number, job, ...fields }, transfer);
  return { number, answer: new Promise((resolve, reject) => requests.set(number, { resolve, reject, partial })) };
}

function answered({ data }) {
  const request = requests.get(data.number);
  if ("partial" in data) {
    request.partial?.(data.partial);
    return;
  }
  requests.delete(data.number);
  if ("error" in data) request.reject(new Error(data.error));
  else request.resolve(data.result);
}

function failed(event) {
  for (const { reject } of requests.values()) reject(new Error(event.message || "the worker does not start"));
  requests.clear();
}

async function open() {
  const begun = performance.now();
  byId("loading").hidden = false;
  report("loading the model");
  try {
    const found = await modelFiles(describe, loaded);
    report("preparing the model");
    const policy = globalThis.trustedTypes?.createPolicy("worker", { createScriptURL: (url) => url });
    const { address, type } = found.worker;
    worker = new Worker(policy ? policy.createScriptURL(address) : address, { type });
    worker.onmessage = answered;
    worker.onerror = failed;
    const { runtime, files } = found;
    await ask("open", { runtime, files }, { transfer: Object.values(files).map((content) => content.buffer) }).answer;
    byId("send").disabled = false;
    report(`ready after ${((performance.now() - begun) / 1000).toFixed(1)} s`);
  } catch (error) {
    report(`the model cannot be loaded: ${error.message}`, true);
  }
  byId("loading").hidden = true;
}

function loaded(done, total) {
  byId("loading").max = total;
  byId("loading").value = done;
  report(`loading the model: ${megabytes(done)} of ${megabytes(total)} MB`);
}

function describe(read) {
  config = read;
  const words = WORDS[config.head ?? config.kind];
  document.title = config.name;
  byId("name").textContent = config.name;
  byId("about").textContent = `This model ${words.about} in your browser. What you write stays in this page.`;
  byId("send").textContent = words.send;
  byId("text-label").textContent = words.text;
  byId("answer-label").textContent = words.answer;
  byId("beam-field").hidden = isEncoder();
  byId("length-field").hidden = config.kind !== "decoder_only";
  byId("beam").value = config.beam ?? 1;
  if (!isEncoder()) byId("length").placeholder = config.max_new_tokens.most;
}

function isEncoder() {
  return config.kind === "encoder_only";
}

function texts() {
  const text = byId("text").value;
  return config.kind === "decoder_only" ? [text] : text.split("\n");
}

async function send(event) {
  event.preventDefault();
  if (byId("send").disabled) return;
  if (!byId("text").value.trim()) {
    report("there is no text yet", true);
    byId("text").focus();
    return;
  }
  busy(true);
  const begun = performance.now();
  const found = [];
  try {
    for (const text of texts()) found.push(await answer(text, found));
    show(found.map((each) => each.text));
    report(`answered in ${seconds(begun)} s${probability(found)}`);
  } catch (error) {
    report(error.message === "stopped" ? `stopped after ${seconds(begun)} s` : error.message, error.message !== "stopped");
  }
  busy(false);
}

async function answer(text, earlier) {
  if (!text.trim()) return { text: "" };
  const settings = isEncoder() ? { text, line: earlier.length + 1 } : { text, beam: byId("beam").valueAsNumber };
  if (config.kind === "decoder_only") settings.maxNewTokens = byId("length").valueAsNumber || undefined;
  const before = earlier.map((each) => each.text);
  const request = ask("generate", settings, { partial: (partial) => show([...before, partial]) });
  running = request.number;
  return request.answer;
}

function seconds(begun) {
  return ((performance.now() - begun) / 1000).toFixed(2);
}

/** The probability of a token, on average over all of them. */
function probability(found) {
  const scores = found.filter((each) => each.score !== undefined);
  const length = ({ ids, ended }) => ids.length + (ended ? 1 : 0);
  const tokens = scores.reduce((sum, each) => sum + length(each), 0);
  const total = scores.reduce((sum, each) => sum + each.score * length(each), 0);
  return tokens ? `; a token has a probability of ${(100 * Math.exp(total / tokens)).toFixed(0)} % on average` : "";
}

function show(lines) {
  byId("answer").textContent = lines.join("\n");
  byId("download").disabled = !lines.some(Boolean);
}

function busy(is) {
  byId("send").disabled = is;
  byId("stop").disabled = !is;
  byId("answer").setAttribute("aria-busy", is);
  if (is) report("the model answers");
}

function download() {
  const url = URL.createObjectURL(new Blob([`${byId("answer").textContent}\n`], { type: "text/plain;charset=utf-8" }));
  Object.assign(document.createElement("a"), { href: url, download: "answer.txt" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

byId("ask").addEventListener("submit", send);
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("ask").requestSubmit();
});
byId("stop").addEventListener("click", () => ask("stop", { request: running }));
byId("download").addEventListener("click", download);
open();
