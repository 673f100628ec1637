// The answer of a model to a request: a translation or a continuation, which is searched for or forced.
// Both give {answer, ids, tree}: the answer as a summary has it, the ids of its sequences, the tree of a beam.

import { beamSearch, greedySearch, lengthPenalty } from "./look_search.js";
import { prepared } from "./look_text.js";
import { stripped, strippedRight } from "./text.js";

/** A translation, as verbs/views/encoder_decoder_reader.py has it. */
export async function translated(looks, request) {
  const { model, table } = looks;
  const { eos_id: end } = model.config.source;
  const { bos_id: begin, eos_id: targetEnd } = model.config.target;
  const source = sourceIds(looks, request.text);
  const penalty = lengthPenalty(table.search);
  const found = (written, logProb, forced, tree) => ({
    answer: { text: model.decode(written), log_prob: logProb, score: logProb / penalty(written.length + 1), forced },
    ids: { source: [...source, end], read: [begin, ...written], written: [...written, end] },
    tree,
  });
  if (typeof request.target === "string") {
    const ids = model.target.encode(stripped(request.target));
    looks.refuseMany(ids.length + 1, "the target");
    const memory = await model.read([source]);
    return found(ids, await looks.logProbOf([begin, ...ids], [...ids, targetEnd], { memory }), ids.length + 1, null);
  }
  const prefix = prefixIds(looks, request);
  looks.refuseMany(prefix.length + 1, "the prefix");
  const most = (table.most_positions ?? Infinity) - 1;
  const { best, tree } = await searched(looks, request, { source, prefix, most });
  if (!best) throw new Error("the model found no answer; raise max_length in generation.json");
  return found(best.ids, best.logProb, prefix.length, tree);
}

function sourceIds(looks, text) {
  const whole = stripped(text);
  if (!whole) throw new Error("the text is empty; give a sentence to look at");
  const { prefix } = looks.table;
  const encoded = looks.model.encode(prepared(whole, prefix));
  const { first_ids: first } = looks.model.config.source;
  const ids = [...first, ...prefix.ids, ...encoded.slice(first.length)];
  looks.refuseMany(ids.length + 1, "the text");
  return ids;
}

function prefixIds(looks, { prefix, prefix_ids: given }) {
  if (given) looks.refuseUnknown(given);
  return given ?? (prefix ? looks.model.target.encode(asPrefix(looks, prefix)) : []);
}

/** A text to be continued, without white space at its end if the tokeniser puts spaces before words. */
function asPrefix(looks, text) {
  return looks.table.splits_at_spaces ? strippedRight(text) : text;
}

function searched(looks, request, task) {
  const settings = looks.table.search;
  const size = request.beam_size ?? settings.size;
  const whole = { model: looks.model, settings, ...task };
  return size > 1 ? beamSearch({ ...whole, size }) : greedySearch(whole);
}

/** A continuation, as verbs/views/decoder_only_reader.py has it. */
export async function continued(looks, request) {
  const { model, table } = looks;
  const { prompt, forced } = forcedText(looks, request);
  looks.refuseMany(prompt.length + forced.length + 1, "the text");
  const begin = table.begin_id === null ? [] : [table.begin_id];
  const context = [...begin, ...prompt];
  const before = [...context, ...forced];
  if (!before.length) {
    throw new Error("prompt 1 is empty, but the model was trained on one running text and knows no beginning of a text; give it a prompt, a line feed for instance");
  }
  let [ids, end, tree] = [forced, [], null];
  if (typeof request.target !== "string") {
    const prefix = [...prompt, ...forced];
    const found = await searched(looks, request, { prompt: before, source: [], prefix: [], uncounted: prefix.length, most: prefix.length + newTokens(looks, request, before.length) });
    if (found.best) {
      ids = [...forced, ...found.best.ids];
      end = found.best.ended ? [model.config.target.eos_id] : [];
    }
    tree = found.tree;
  } else if (!forced.length) {
    ids = [await looks.mostLikelyAfter(before)]; // the text alone: its last token is read too
  }
  const whole = [...context, ...ids, ...end];
  if (whole.length < 2) throw new Error("there is nothing to predict in a text of one token; give a longer text");
  const start = Math.max(context.length - 1, 0);
  const [read, written] = [whole.slice(0, -1), whole.slice(1)];
  const logProb = await looks.logProbOf(read, written, { start });
  const score = logProb / lengthPenalty(table.search)(Math.max(written.length - start, 1));
  const answer = { text: textAfter(model, prompt, ids), log_prob: logProb, score, forced: start + forced.length, start };
  return { answer, ids: { read, written }, tree };
}

/** The ids of the text, and of what is forced after it, tokenised as one text. */
function forcedText(looks, { text, target, prefix, prefix_ids: given }) {
  const encode = (each) => looks.model.encode(each).slice(looks.table.begin_id === null ? 0 : 1);
  const prompt = encode(text);
  const begins = (ids) => prompt.every((id, place) => ids[place] === id);
  if (given) {
    looks.refuseUnknown(given);
    const whole = looks.table.begin_id === null ? [...prompt.slice(0, 1), ...given] : given;
    return begins(whole) ? { prompt, forced: whole.slice(prompt.length) } : { prompt: whole, forced: [] };
  }
  const after = target ?? prefix ?? "";
  const whole = encode(asPrefix(looks, text + after));
  return { prompt, forced: begins(whole) ? whole.slice(prompt.length) : encode(after) };
}

/** The number of tokens to generate; beyond the trained length only if the request says so. */
function newTokens({ table }, { max_new_tokens: asked }, length) {
  let wanted = asked ?? table.new_tokens;
  if (!asked && table.trained_length !== null && length < table.trained_length) wanted = Math.min(wanted, table.trained_length - length);
  return Math.min(wanted, (table.most_positions ?? table.most_tokens) - length, table.most_tokens - length);
}

/** The text of ids after those of the prompt. */
function textAfter(model, prompt, ids) {
  const [before, whole] = [model.decode(prompt), model.decode([...prompt, ...ids])];
  return whole.startsWith(before) ? whole.slice(before.length) : model.decode(ids);
}
