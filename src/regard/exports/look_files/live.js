// The entry of a page of one look that holds its model: a worker in the page answers new texts.

import { begin } from "../begin.js";
import { heldResources, makeSource } from "../resources.js";
import { modelFiles } from "./files.js";

/** Opens the model at the first request, which then takes longer. */
function openedLater() {
  let worker = null;
  let number = 0;
  const waiting = new Map();

  async function open() {
    const found = await modelFiles(() => {}, () => {});
    const policy = globalThis.trustedTypes?.createPolicy("worker", { createScriptURL: (url) => url });
    const { address, type } = found.worker;
    const started = new Worker(policy ? policy.createScriptURL(address) : address, { type });
    started.onmessage = ({ data }) => {
      const { resolve, reject } = waiting.get(data.number);
      waiting.delete(data.number);
      if ("error" in data) reject(new Error(data.error));
      else resolve(data.result);
    };
    started.onerror = (event) => {
      for (const { reject } of waiting.values()) reject(new Error(event.message || "the worker does not start"));
      waiting.clear();
    };
    const { runtime, files } = found;
    await call(started, { job: "open", runtime, files }, Object.values(files).map((content) => content.buffer));
    return started;
  }

  function call(to, message, transfer = []) {
    number += 1;
    return new Promise((resolve, reject) => {
      waiting.set(number, { resolve, reject });
      to.postMessage({ number, ...message }, transfer);
    });
  }

  return async (request) => {
    worker ??= open();
    return call(await worker, { job: "look", request });
  };
}

/** The look that the page was saved with, and those that its model computes. */
function fromModel(holder) {
  const look = openedLater();
  const first = heldResources(holder);
  let current = first;
  return makeSource({
    summary: first.summary,
    switchable: false,
    fetchResource: (path, kind) => current.fetchResource(path, kind),
    async request(body) {
      const next = body ? computed(await look(body)) : first;
      return { summary: next.summary, adopt: () => (current = next) };
    },
  });
}

/** The resources of a look that the worker computed. */
function computed({ summary, json, arrays }) {
  return {
    summary,
    async fetchResource(path, kind) {
      const found = kind === "json" ? json[path] : arrays[path];
      if (found === undefined) throw new Error(`this look has no ${path}`);
      return found;
    },
  };
}

begin(fromModel);
