// Computes looks in node, for a check: requests come by standard input as JSON, and the answers go to standard output.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const { folder, requests } = JSON.parse(readFileSync(0, "utf-8"));
const load = (name) => import(pathToFileURL(join(folder, name)).href);
const { Looks } = await load("looks.js");
const runtime = await load("onnxruntime-web.js");
const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf-8"));
const files = Object.fromEntries(["config.json", ...Object.keys(config.files)].map((name) => [name, readFileSync(join(folder, name))]));
runtime.env.wasm.numThreads = 1;
runtime.env.wasm.wasmBinary = files["onnxruntime-web.wasm"];
const looks = await Looks.open(runtime, files);

async function answered(request) {
  try {
    const { arrays, ...found } = await looks.look(request);
    const listed = Object.entries(arrays).map(([path, { data, shape, dtype }]) => [path, { shape, dtype, values: Array.from(data) }]);
    return { ...found, arrays: Object.fromEntries(listed) };
  } catch (error) {
    return { error: error.message };
  }
}

const answers = [];
for (const request of requests) answers.push(await answered(request));
process.stdout.write(JSON.stringify(answers));
