// Translates or continues texts by the ONNX graphs of this folder: greedy and beam search.
// The module onnxruntime-web is handed in, so that this runs in a page, in a worker and in node.

import { Tokenizer } from "./tokenizer.js";
import { filled, logSoftmax, repeated, selected, topCandidates } from "./arrays.js";

/** The graphs and tokenisers of a folder. */
export class Model {
  /** `files`: the bytes of config.json, of its tokenisers and of the graphs, by name. */
  static async open(runtime, files) {
    const table = (name) => JSON.parse(new TextDecoder().decode(files[name]));
    const model = new Model();
    model.runtime = runtime;
    model.config = table("config.json");
    const { source, target, characters } = model.config;
    model.source = new Tokenizer(table(source.tokenizer), characters);
    model.target = source.tokenizer === target.tokenizer ? model.source : new Tokenizer(table(target.tokenizer), characters);
    const session = (name) => runtime.InferenceSession.create(files[name], { executionProviders: ["wasm"], logSeverityLevel: 3 });
    model.encoder = model.translates ? await session("encoder.onnx") : null;
    model.decoder = await session("decoder.onnx");
    return model;
  }

  get translates() {
    return this.config.kind === "encoder_decoder";
  }

  /**
   * The translation of a text, with the white space around it, or the text with its continuation; `stepped` is
   * awaited with the text so far.
   */
  async generate(text, { beam, maxNewTokens, stepped } = {}) {
    const bare = this.translates ? text.trim() : text;
    const known = this.readable(bare);
    if (this.translates && !known) return { ids: [], text: text.replace(bare, "") };
    const ids = this.encode(known);
    this.refuseLong(ids.length, maxNewTokens ?? 1);
    const shown = (found) =>
      this.translates ? text.replace(bare, () => this.decode(found)) : this.decode([...ids, ...found]);
    const found = await this.search(ids, {
      size: beam ?? this.config.beam,
      longest: maxNewTokens ?? this.longest(ids.length),
      rules: this.config.rules,
      stepped: stepped && ((output) => stepped(shown(output))),
    });
    return { ...found, text: shown(found.ids) };
  }

  /** The ids of a text. */
  encode(text) {
    const { first_ids, unknown_ids, unk_id } = this.config.source;
    const unknown = new Set(unknown_ids);
    return [...first_ids, ...this.source.encode(text).map((id) => (unknown.has(id) ? unk_id : id))];
  }

  /** The text without spaces that the model does not know: others are in their places. */
  readable(text) {
    return [...text].map((each) => this.config.source.replaced[each] ?? each).join("");
  }

  /** The text of ids. */
  decode(ids) {
    const dropped = new Set(this.config.target.dropped_ids);
    return this.target.decode(ids.filter((id) => !dropped.has(id)));
  }

  /** Throws if the model has no positions for a text of so many ids and what it puts out. */
  refuseLong(length, count) {
    const most = this.config.most_positions ?? Infinity;
    const read = this.translates ? length + 1 : length;
    if (read > most) throw new Error(`the text has ${read} tokens, and the model reads at most ${most}`);
    const room = this.translates ? most - 1 : most - length;
    if (count > Math.max(1, room)) throw new Error(`the model has room for ${room} new tokens, not ${count}`);
  }

  /** The greatest number of tokens that are put out for so many. */
  longest(length) {
    const { ratio, offset, most } = this.config.max_new_tokens;
    const given = this.translates ? 1 : length; // tokens that the decoder reads first
    const positions = this.config.most_positions ?? Infinity;
    return Math.max(1, Math.min(Math.ceil(ratio * length + offset), most, positions - given));
  }

  /**
   * The best hypothesis of a beam of `size`, 1 for greedy search, for the ids of a text: its ids without the
   * end, its score, which is the mean log-probability of a token with the end, and whether it ended.
   *
   * A beam stops when as many hypotheses as its size have ended. One of the greatest length is finished
   * without an end. The best one has the greatest score. `rules`: other ids that end a text, the first one,
   * which is forced at no cost, and those that it never has.
   */
  async search(ids, { size, longest, rules = {}, stepped }) {
    const { end_ids = [], forced_id = null, never_ids = [] } = rules;
    const ends = new Set([this.config.target.eos_id, ...end_ids]);
    const finished = [];
    let { memory, first } = await this.begin(ids);
    let { logProbs, cache } = await this.step([first], memory, this.emptyCache());
    if (forced_id !== null) logProbs = [logProbs[0].map((_, id) => (id === forced_id ? 0 : -Infinity))];
    let outputs = [[]];
    let totals = [0];
    let numEnded = 0;
    for (let length = 1; ; length += 1) {
      let kept = [];
      for (const row of logProbs) for (const id of never_ids) row[id] = -Infinity;
      for (const [place, { row, id, total }] of topCandidates(totals, logProbs, 2 * size).entries()) {
        if (total === -Infinity) continue;
        if (!ends.has(id)) kept.push({ row, id, total });
        else if (place < size) {
          finished.push({ ids: outputs[row], score: total / length, ended: true });
          numEnded += 1;
        }
        if (size === 1) break;
      }
      kept = kept.slice(0, size);
      outputs = kept.map(({ row, id }) => [...outputs[row], id]);
      totals = kept.map(({ total }) => total);
      if (length === longest || !kept.length) {
        finished.push(...outputs.map((output, place) => ({ ids: output, score: totals[place] / length, ended: false })));
        break;
      }
      if (numEnded >= size) break;
      await stepped?.(outputs[0]);
      const rows = kept.map(({ row }) => row);
      cache = this.mapped(cache, (tensor) => selected(tensor, rows));
      if (memory.lengths?.dims[0] !== rows.length) memory = this.mapped(memory, (tensor) => repeated(tensor, rows.length));
      ({ logProbs, cache } = await this.step(kept.map(({ id }) => [id]), memory, cache));
    }
    if (!finished.length) throw new Error("no token is allowed");
    return finished.sort((one, other) => other.score - one.score || compared(one.ids, other.ids))[0];
  }

  /** The memory of a source and the first target ids; or none, and the prompt. */
  async begin(ids) {
    if (!this.translates) return { memory: {}, first: ids };
    return { memory: await this.read([ids]), first: [this.config.target.bos_id] };
  }

  /** What the decoder attends to: the keys and values of sources, and their lengths. */
  async read(sources) {
    const rows = sources.map((ids) => [...ids, this.config.source.eos_id]);
    const lengths = this.integers(rows.map((ids) => ids.length), [rows.length]);
    return { lengths, ...(await this.encoder.run({ ids: this.matrix(rows), lengths })) };
  }

  /** The keys and values of no positions. */
  emptyCache(rows = 1) {
    const { layers, kv_heads, head_dim } = this.config.cache;
    const names = [...Array(layers).keys()].flatMap((layer) => [`past_key_${layer}`, `past_value_${layer}`]);
    return Object.fromEntries(names.map((name) => [name, this.floats(new Float32Array(0), [rows, kv_heads, 0, head_dim])]));
  }

  /** The log-probabilities of what follows the ids, equally many a row, and the longer cache. */
  async step(ids, memory, cache) {
    const { logits, ...others } = await this.decoder.run({ ids: this.matrix(ids), ...memory, ...cache });
    const [rows, length, width] = logits.dims;
    const last = (row) => ((row + 1) * length - 1) * width;
    return {
      logProbs: [...Array(rows).keys()].map((row) => logSoftmax(logits.data.subarray(last(row), last(row) + width))),
      cache: Object.fromEntries(Object.entries(others).map(([name, tensor]) => [`past_${name}`, tensor])),
    };
  }

  /** Rows of ids as a tensor, with zeros after the shorter ones. */
  matrix(rows) {
    const width = Math.max(...rows.map((row) => row.length));
    return this.integers(rows.flatMap((row) => filled(row, width)), [rows.length, width]);
  }

  integers(values, dims) {
    return new this.runtime.Tensor("int64", BigInt64Array.from(values, BigInt), dims);
  }

  floats(values, dims) {
    return new this.runtime.Tensor("float32", values, dims);
  }

  /** Tensors by name with `change` applied, which gives values and dims. */
  mapped(tensors, change) {
    const made = (tensor) => new this.runtime.Tensor(tensor.type, ...change(tensor));
    return Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, made(tensor)]));
  }
}

/** The order of two lists of ids: below zero if the first one comes first. */
function compared(one, other) {
  const place = one.findIndex((id, at) => id !== other[at]);
  if (place < 0) return one.length - other.length;
  return place < other.length ? one[place] - other[place] : 1;
}
