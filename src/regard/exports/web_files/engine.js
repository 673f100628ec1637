// The model in a worker: a page asks by messages, each with a number, and gets answers with that number.

import { openModel } from "./models.js";

const turns = new MessageChannel();
const stopped = new Set(); // numbers of requests that are to end
let model = null;

const JOBS = {
  /** `runtime` is the address of the engine's module, `files` has the engine's WebAssembly and the model's files. */
  async open({ runtime, files }, load) {
    const engine = await load(runtime);
    engine.env.wasm.numThreads = 1;
    engine.env.wasm.wasmBinary = files["onnxruntime-web.wasm"];
    model = await openModel(engine, files);
    return {};
  },

  async generate({ number, text, ...settings }) {
    const stepped = async (partial) => {
      postMessage({ number, partial });
      await turn();
      if (stopped.delete(number)) throw new Error("stopped");
    };
    return model.generate(text, { ...settings, stepped });
  },

  stop({ request }) {
    stopped.add(request);
  },
};

/** Lets messages arrive. */
function turn() {
  return new Promise((resolve) => {
    turns.port1.onmessage = resolve;
    turns.port2.postMessage(null);
  });
}

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
