// Classes of texts, labels of words, or words for masked places, by the ONNX graph of this folder.
// The module onnxruntime-web is handed in, so that this runs in a page, in a worker and in node.

import { filled, logSoftmax } from "./arrays.js";
import { splitWords, stripped, strippedRight } from "./text.js";
import { Tokenizer } from "./tokenizer.js";

const TOP = 5; // words for a masked place
const CUT = ["classification", "regression"]; // heads for which a long text is cut

/** The graph and the tokeniser of a folder. */
export class Predictor {
  /** `files`: the bytes of config.json, of its tokeniser and of the graph, by name. */
  static async open(runtime, files) {
    const table = (name) => JSON.parse(new TextDecoder().decode(files[name]));
    const model = new Predictor();
    model.runtime = runtime;
    model.config = table("config.json");
    model.side = model.config.source;
    model.unknown = new Set(model.side.unknown_ids);
    model.tokenizer = new Tokenizer(table(model.side.tokenizer), model.config.characters);
    model.graph = await runtime.InferenceSession.create(files["encoder.onnx"], { executionProviders: ["wasm"], logSeverityLevel: 3 });
    return model;
  }

  /** What is put out for a text, the lines of `regard classify`, `regard tag` or `regard fill`, as {text}. */
  async generate(text, { line = 1 } = {}) {
    const { ids, places, words } = this.read(text);
    const most = this.config.most_positions ?? Infinity;
    if (ids.length > most) throw new Error(`the text has ${ids.length} tokens, and the model reads at most ${most}`);
    if (places && !places.length) return { text: "" };
    const [rows] = await this.outputs([{ ids, places }]);
    const { head, labels } = this.config;
    if (head === "regression") return { text: String(Number(rows[0][0].toPrecision(6))) };
    const chances = rows.map((row) => logSoftmax(row).map(Math.exp));
    const best = (row, count) => [...row.keys()].sort((one, other) => row[other] - row[one]).slice(0, count);
    const lines = {
      classification: () => chances.map((row) => [labels[best(row, 1)[0]], row[best(row, 1)[0]].toFixed(4)]),
      tokens: () => chances.map((row, place) => [words[place], labels[best(row, 1)[0]]]),
      masked_language_model: () =>
        chances.flatMap((row, place) => best(row, TOP).map((id) => [line, place + 1, this.token(id), row[id].toFixed(4)])),
    }[head]();
    return { text: lines.map((each) => each.join("\t")).join("\n") + (head === "tokens" ? "\n" : "") };
  }

  /** The output of the graph for each {ids, places}: a row of numbers for it, or for each of its places. */
  async outputs(texts) {
    const width = Math.max(...texts.map(({ ids }) => ids.length));
    const tensor = (values, dims) => new this.runtime.Tensor("int64", BigInt64Array.from(values, BigInt), dims);
    const ids = tensor(texts.flatMap((each) => filled(each.ids, width, this.side.pad_id)), [texts.length, width]);
    const lengths = tensor(texts.map((each) => each.ids.length), [texts.length]);
    const { output } = await this.graph.run({ ids, lengths });
    const size = output.dims.length > 1 ? output.dims.at(-1) : 1;
    const at = (row) => output.data.slice(row * size, (row + 1) * size);
    return texts.map(({ places }, row) => (places ? places.map((place) => at(row * width + place)) : [at(row)]));
  }

  /** The ids of a text as the model reads it, and the positions at which a word or a mask is predicted. */
  read(given) {
    const text = stripped(given);
    if (this.config.head === "tokens") return this.readWords(splitWords(text));
    if (this.config.head === "masked_language_model") return this.readMasks(text);
    return { ids: this.framed(this.encode(text)), places: null };
  }

  /** The ids of words, each predicted at its first id. */
  readWords(words) {
    const ids = [];
    const places = [];
    for (const word of words) {
      places.push(1 + ids.length);
      const found = this.encode(this.side.word_prefix + word);
      ids.push(...(found.length ? found : [this.side.unk_id]));
    }
    return { ids: this.framed(ids), places, words };
  }

  /** The ids of a text with masked tokens. */
  readMasks(text) {
    const { mask_spellings: spellings, spaces_begin_words: spaced, mask_id: mask } = this.side;
    const escaped = spellings.map((each) => each.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    const [first, ...others] = text.split(new RegExp(escaped.join("|"), "u"));
    const cut = (segment, isLast) => (spaced && !isLast ? strippedRight(segment) : segment);
    const ids = this.encode(cut(first, !others.length));
    const places = [];
    others.forEach((segment, place) => {
      places.push(1 + ids.length);
      ids.push(mask, ...this.afterAWord(cut(segment, place === others.length - 1)));
    });
    return { ids: this.framed(ids), places };
  }

  /** The ids of what follows a mask, as if that were a word. */
  afterAWord(segment) {
    const [first, ...others] = this.tokenizer.words(`x${segment}`);
    const alone = this.tokenizer.words("x");
    return this.idsOf(alone.length === 1 && first === alone[0] ? others : this.tokenizer.words(segment));
  }

  encode(text) {
    return this.idsOf(this.tokenizer.words(text));
  }

  idsOf(words) {
    return words.flatMap((word) => this.tokenizer.wordIds(word)).map((id) => (this.unknown.has(id) ? this.side.unk_id : id));
  }

  /** The ids between those of the beginning and the end; those of a whole text are cut to fit. */
  framed(ids) {
    const most = CUT.includes(this.config.head) ? (this.config.most_positions ?? Infinity) - 2 : Infinity;
    return [this.side.bos_id, ...ids.slice(0, Math.max(0, most)), this.side.eos_id];
  }

  /** The text of ids. */
  decode(ids) {
    const dropped = new Set(this.side.dropped_ids);
    return this.tokenizer.decode(ids.filter((id) => !dropped.has(id)));
  }

  /** A token as text; a special one by its name. */
  token(id) {
    return stripped(this.decode([id])) || this.tokenizer.pieces.get(id);
  }
}
