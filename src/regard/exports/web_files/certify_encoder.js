// Computes in node what the certificate of an encoder compares. A job comes by standard input and the answer goes to
// standard output, both as JSON. All of it is computed by the JavaScript of the job's folder.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const ROWS = 16; // texts of a batch
const job = JSON.parse(readFileSync(0, "utf-8"));
const load = (name) => import(pathToFileURL(join(job.folder, name)).href);
const { open } = await load("open.js");
const runtime = await load("onnxruntime-web.js");
const model = await open();

/** Rows of float32 in base64. */
function encoded(rows) {
  const size = rows[0]?.length ?? 0;
  const joined = new Float32Array(rows.length * size);
  rows.forEach((row, number) => joined.set(row, number * size));
  return Buffer.from(joined.buffer).toString("base64");
}

const texts = job.rows.map((ids, number) => ({ ids, places: job.places[number] }));
const outputs = [];
for (let first = 0; first < texts.length; first += ROWS) outputs.push(...(await model.outputs(texts.slice(first, first + ROWS))));
const answer = {
  read: job.texts.map((text) => model.read(text)).map(({ ids, places }) => [ids, places]),
  outputs: outputs.map(encoded),
  encoded: job.pieces.map((text) => model.encode(text)),
  decoded: job.ids.map((ids) => model.decode(ids)),
  versions: { "onnxruntime-web": runtime.env.versions.common, node: process.versions.node },
};
process.stdout.write(JSON.stringify(answer));
