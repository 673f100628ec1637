// Computes in node what a certificate compares. A job comes by standard input and the answer goes to standard
// output, both as JSON. All of it is computed by the JavaScript of the job's folder.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const ROWS = 16; // forced sequences of a batch
const job = JSON.parse(readFileSync(0, "utf-8"));
const load = (name) => import(pathToFileURL(join(job.folder, name)).href);
const { open } = await load("open.js");
const { logSoftmax, filled } = await load("arrays.js");
const runtime = await load("onnxruntime-web.js");
const model = await open();
const { bos_id, eos_id } = model.config.target;

async function best(size) {
  const found = [];
  for (const ids of job.sources) {
    const { ids: output, ended, score } = await model.search(ids, { size, longest: job.longest });
    found.push([ended ? [...output, eos_id] : output, score]);
  }
  return found;
}

/** The log-probability of each id of these outputs, and of the end; or of each id of these texts but the first. */
async function forced(pairs) {
  if (!model.translates) return nextLogProbs(pairs.map(([given, output]) => [...given, ...output]), {});
  const memory = await model.read(pairs.map(([given]) => given));
  return nextLogProbs(pairs.map(([, output]) => [bos_id, ...output, eos_id]), memory);
}

/** The log-probability of each id of each row but the first, read at once with an empty cache. */
async function nextLogProbs(rows, memory) {
  const width = Math.max(...rows.map((row) => row.length));
  const ids = model.matrix(rows.map((row) => filled(row, width).slice(0, -1)));
  const { logits } = await model.decoder.run({ ids, ...memory, ...model.emptyCache(rows.length) });
  const [, length, size] = logits.dims;
  const at = (row, place) => logits.data.subarray((row * length + place) * size, (row * length + place + 1) * size);
  return rows.map((row, number) => row.slice(1).map((id, place) => logSoftmax(at(number, place))[id]));
}

const logProbs = [];
for (let first = 0; first < job.forced.length; first += ROWS) logProbs.push(...(await forced(job.forced.slice(first, first + ROWS))));
const answer = {
  greedy: await best(1),
  beam: await best(job.beam),
  log_probs: logProbs,
  encoded: job.texts.map((text) => model.encode(text)),
  decoded: job.ids.map((ids) => model.decode(ids)),
  versions: { "onnxruntime-web": runtime.env.versions.common, node: process.versions.node },
};
process.stdout.write(JSON.stringify(answer));
