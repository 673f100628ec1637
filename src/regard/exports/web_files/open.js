// Opens the model of this folder in node.

import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { openModel } from "./models.js";
import * as runtime from "./onnxruntime-web.js";

const FOLDER = dirname(fileURLToPath(import.meta.url));

/** The model of this folder. */
export async function open() {
  const { files: sizes } = JSON.parse(await readFile(join(FOLDER, "config.json"), "utf-8"));
  const read = async (name) => [name, await readFile(join(FOLDER, name))];
  const files = Object.fromEntries(await Promise.all(["config.json", ...Object.keys(sizes)].map(read)));
  runtime.env.wasm.numThreads = 1;
  runtime.env.wasm.wasmBinary = files["onnxruntime-web.wasm"];
  return openModel(runtime, files);
}
