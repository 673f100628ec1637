// The files of the model: of the folder that this page is in, or those that the page itself holds.

/**
 * The worker, the address of the engine's module, and the files. `configured` gets the content of config.json,
 * then `loaded` the bytes so far and in all.
 */
export async function modelFiles(configured, loaded) {
  return document.querySelector("[data-file]") ? held(configured) : served(configured, loaded);
}

function parsed(content) {
  return JSON.parse(new TextDecoder().decode(content));
}

async function served(configured, loaded) {
  const config = new Uint8Array(await (await asked("config.json")).arrayBuffer());
  configured(parsed(config));
  const sizes = parsed(config).files;
  const total = Object.values(sizes).reduce((sum, size) => sum + size, 0);
  const failure = new AbortController();
  let done = 0;
  const count = (bytes) => failure.signal.aborted || loaded((done += bytes), total);
  const read = async ([name, size]) => [name, await contentOf(name, size, count, failure.signal)];
  try {
    return {
      worker: { address: "worker.js", type: "module" },
      runtime: new URL("onnxruntime-web.js", document.baseURI).href,
      files: { "config.json": config, ...Object.fromEntries(await Promise.all(Object.entries(sizes).map(read))) },
    };
  } catch (error) {
    failure.abort(); // the other files
    throw error;
  }
}

async function asked(name, signal = null) {
  const answer = await fetch(name, { signal });
  if (!answer.ok) throw new Error(`${name}: the server answers ${answer.status}`);
  return answer;
}

async function contentOf(name, size, count, signal) {
  const content = new Uint8Array(size);
  let end = 0;
  for (const reader = (await asked(name, signal)).body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    if (end + value.length > size) throw new Error(`${name} is longer than that of this export`);
    content.set(value, end);
    end += value.length;
    count(value.length);
  }
  if (end < size) throw new Error(`${name} is shorter than that of this export`);
  return content;
}

async function held(configured) {
  const elements = [...document.querySelectorAll("[data-file]")];
  const read = async ({ dataset, textContent }) => [dataset.file, await unpacked(textContent)];
  const { "worker.js": worker, "onnxruntime-web.js": runtime, ...files } = Object.fromEntries(await Promise.all(elements.map(read)));
  configured(parsed(files["config.json"]));
  return {
    worker: { address: URL.createObjectURL(new Blob([worker], { type: "text/javascript" })), type: "classic" },
    runtime: await dataAddress(runtime), // a worker of a page from disk can import no blob
    files,
  };
}

/** The content of base64 of gzip. */
async function unpacked(text) {
  const characters = atob(text);
  const packed = new Uint8Array(characters.length);
  for (let place = 0; place < packed.length; place += 1) packed[place] = characters.charCodeAt(place);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function dataAddress(content) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(new Blob([content], { type: "text/javascript" }));
  });
}
