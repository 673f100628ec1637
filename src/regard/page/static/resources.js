// The source of the page's data: a server, the page's own file, or a notebook, all with one interface.
import { parseNpy } from "./npy.js";

/**
 * What all sources have in common. `fetchResource(path, kind)` returns JSON, or the bytes of an .npy file.
 * `request(body)` makes a new Look and returns {summary, adopt}; `adopt()` is called when it becomes the current one.
 * `stream(body, onToken, signal)` reports each token of a new answer. `switchable`: a request may switch parts off.
 * An array may come as such: {data, shape, dtype}.
 */
export function makeSource({ summary, fetchResource, problem = null, request = null, stream = null, switchable = request !== null }) {
  let cache = new Map();
  let asked = 0;
  let base = isWhole(summary) ? summary.request : null; // the request of the last Look with nothing switched off

  function cached(path, kind) {
    if (!cache.has(path)) {
      const held = cache;
      const promise = fetchResource(path, kind).catch((problem) => {
        held.delete(path); // so that the next call tries again
        throw problem;
      });
      cache.set(path, promise);
    }
    return cache.get(path);
  }

  const source = {
    summary,
    /** Why there is no Look at the start, if one was asked for. */
    problem,
    /** The summary of the Look before this one, for views that compare. */
    before: null,
    /** The request of this Look; null for the one at the start. */
    request: null,
    /** The request that gives this Look with everything switched on. */
    whole() {
      const { text, request: own } = source.summary;
      return { ...(base?.text === text ? base : (own ?? { text })), changes: null };
    },
    /** True if new Looks can be requested. */
    live: request !== null,
    /** True if new Looks can have parts switched off. */
    switchable,
    has: (path) => (path === "summary" ? source.summary !== null : Boolean(source.summary?.resources.includes(path))),
    json: async (path) => (path === "summary" ? source.summary : cached(path, "json")),
    array: async (path) => cached(path, "array").then((bytes) => parsed(bytes)),
    /** Requests a Look, which becomes the current one; null stands for the one at the start. */
    async ask(body) {
      if (!request) throw new Error("this page was saved: it cannot run the model");
      const mine = ++asked;
      const { summary: next, adopt } = await request(body);
      if (mine !== asked) return source.summary; // a later request replaces this one
      adopt?.();
      cache = new Map();
      source.request = body;
      source.before = source.summary;
      source.summary = next;
      if (isWhole(next)) base = next.request;
      window.dispatchEvent(new CustomEvent("look", { detail: { source } }));
      return next;
    },
    /** Reports the tokens of an answer before its Look is requested; earlier requests without an answer are dropped. */
    async stream(body, onToken, signal) {
      asked++;
      if (stream) await stream(body, onToken, signal);
    },
  };
  return source;
}

/** True if this is a Look with nothing switched off. */
export function isWhole(summary) {
  const { heads = {}, layers = [], tokens = [] } = summary?.changes ?? {};
  return Boolean(summary) && !Object.values(heads).flat().length && !layers.length && !tokens.length;
}

const arrays = new WeakMap(); // bytes -> their array

function parsed(bytes) {
  if (bytes.shape) return bytes;
  if (!arrays.has(bytes)) arrays.set(bytes, parseNpy(bytes));
  return arrays.get(bytes);
}

/**
 * From regard's own server. api/look has the Look that it was started with: {id, summary} or null.
 * Addresses are relative to the page's, which contains the server's token.
 */
export async function fromServer(base = ".") {
  const post = (where, body, signal) =>
    reached(`${base}/api/${where}`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
    });
  let problem = null;
  const first = await reached(`${base}/api/look`).then(answered).catch((found) => {
    problem = found.message; // the page still shows the box for another text
    return null;
  });
  let id = first?.id ?? null;
  return makeSource({
    summary: first?.summary ?? null,
    problem,
    async fetchResource(path, kind) {
      const place = [id, ...path.split("/")].map(encodeURIComponent).join("/");
      const response = await reached(`${base}/api/look/${place}`);
      if (!response.ok || kind === "json") return answered(response);
      return response.arrayBuffer();
    },
    async request(body) {
      const made = await answered(await (body ? post("look", body) : reached(`${base}/api/look`)));
      if (!made) throw new Error("there was no text at the start");
      return { summary: made.summary, adopt: () => (id = made.id) };
    },
    async stream(body, onToken, signal) {
      const response = await post("stream", body, signal);
      if (!response.ok) await answered(response);
      await lines(response.body, onToken);
    },
  });
}

async function reached(address, options = {}) {
  try {
    return await fetch(address, options);
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Error("the server does not answer: is it still running?");
  }
}

async function answered(response) {
  const text = await response.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    if (response.ok) throw new Error("the server's answer is not JSON");
  }
  if (!response.ok) throw new Error(value?.error ? withHint(value) : `the server answered with status ${response.status}`);
  return value;
}

async function lines(body, onLine) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    rest += value ?? "";
    const whole = rest.split("\n");
    rest = done ? "" : whole.pop();
    for (const line of whole) if (line.trim()) deliver(JSON.parse(line), onLine);
    if (done) return;
  }
}

/** An error message: what is wrong, and what to do. */
function withHint({ error, hint }) {
  return hint ? `${error}; ${hint}` : error;
}

function deliver(line, onLine) {
  if (line.error) throw new Error(withHint(line));
  onLine(line);
}

/** From the page itself: an element that holds {"json": {path: value}, "arrays": {path: base64 of an .npy file}}. */
export function fromDocument(holder) {
  return makeSource(heldResources(holder));
}

/** What such an element holds: {summary, fetchResource}. */
export function heldResources(holder) {
  const { json, arrays: encoded } = JSON.parse(holder.textContent);
  return {
    summary: json.summary,
    async fetchResource(path, kind) {
      const held = kind === "json" ? json[path] : encoded[path];
      if (held === undefined) throw new Error(`this page was saved without ${path}`);
      return kind === "json" ? held : Uint8Array.from(atob(held), (character) => character.charCodeAt(0)).buffer;
    },
  };
}

/**
 * From a notebook, by messages of an anywidget model. It has `summary` and `live` as traits. To it:
 * {id, do: "get", path} | {id, do: "ask", request} | {id, do: "stream", request}. From it, with the same id:
 * {id, value} (JSON or a summary) | {id} and one buffer (.npy) | {id, token: {...}} ... {id, done: true} | {id, error}.
 */
export function fromWidget(model) {
  const waiting = new Map();
  let count = 0;

  function call(message, onToken) {
    const id = ++count;
    return new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject, onToken });
      model.send({ id, ...message });
    });
  }

  model.on("msg:custom", (message, buffers) => {
    const call = waiting.get(message?.id);
    if (!call) return;
    if (message.token) {
      call.onToken?.(message.token);
      return;
    }
    waiting.delete(message.id);
    if (message.error) call.reject(new Error(withHint(message)));
    else call.resolve(buffers?.length ? buffers[0] : message.value);
  });

  const live = Boolean(model.get("live"));
  return makeSource({
    summary: model.get("summary"),
    fetchResource: (path) => call({ do: "get", path }),
    request: live ? async (request) => ({ summary: await call({ do: "ask", request }) }) : null,
    stream: live ? (request, onToken) => call({ do: "stream", request }, onToken) : null,
  });
}
