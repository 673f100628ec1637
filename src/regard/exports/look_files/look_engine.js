// The looks of a model in a worker: a page asks by messages, each with a number, and gets answers with that number.

import { Looks } from "./looks.js";

let looks = null;

const JOBS = {
  /** `runtime` is the address of the engine's module, `files` has the engine's WebAssembly and the model's files. */
  async open({ runtime, files }, load) {
    const engine = await load(runtime);
    engine.env.wasm.numThreads = 1;
    engine.env.wasm.wasmBinary = files["onnxruntime-web.wasm"];
    looks = await Looks.open(engine, files);
    return {};
  },

  async look({ request }) {
    return looks.look(request);
  },
};

/** Answers the messages of the page; `load` imports a module by its address. */
function serve(load) {
  globalThis.onmessage = async ({ data }) => {
    try {
      postMessage({ number: data.number, result: await JOBS[data.job](data, load) });
    } catch (error) {
      postMessage({ number: data.number, error: error.message ?? String(error) });
    }
  };
}

export default serve;
