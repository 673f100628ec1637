// Greedy and beam search as regard's own (decoding/search.py): the same stopping, and the tree of a beam.

import { selected, repeated, topCandidates } from "./arrays.js";
import { rounded } from "./look_arrays.js";

/** The divisor of a log-probability, by the tokens of a hypothesis, its end included. */
export function lengthPenalty({ penalty, alpha }) {
  return penalty === "wu" ? (length) => ((5 + length) / 6) ** alpha : (length) => length ** alpha;
}

/** The greatest length, of the limits and the model, or that of the prefix; `uncounted` are the tokens of a prompt. */
function longestOf({ ratio, offset, least, most }, { source, prefix, most: read, uncounted = 0 }) {
  const limit = Math.max(least, Math.min(most, Math.ceil(ratio * source.length + offset)));
  return Math.max(Math.min(limit, read), prefix.length + uncounted) - uncounted;
}

/** The rows of a search: {ids, total}; `next` computes the log-probabilities of what follows each. */
class Rows {
  static async begin({ model, source, prompt }) {
    const rows = new Rows();
    rows.model = model;
    rows.memory = model.translates ? await model.read([source]) : {};
    rows.first = prompt ?? [model.config.target.bos_id];
    rows.cache = model.emptyCache();
    rows.held = [{ ids: [], total: 0 }];
    return rows;
  }

  async next() {
    const last = this.held.map(({ ids }) => (ids.length ? ids.slice(-1) : this.first));
    const { logProbs, cache } = await this.model.step(last, this.memory, this.cache);
    this.cache = cache;
    return logProbs;
  }

  /** Each row becomes a child {row, id, total} of another. */
  grow(children) {
    const rows = children.map(({ row }) => row);
    this.held = children.map(({ row, id, total }) => ({ ids: [...this.held[row].ids, id], total }));
    this.cache = this.model.mapped(this.cache, (tensor) => selected(tensor, rows));
    if (this.memory.lengths && this.memory.lengths.dims[0] !== rows.length) this.memory = this.model.mapped(this.memory, (tensor) => repeated(tensor, rows.length));
  }
}

/** The next tokens of a row {row, id, own, total}, at most `count`: the forced one, or the best that are allowed. */
function choices(logProbs, { row, total, count, forced, settings }) {
  const own = (id) => ({ row, id, own: logProbs[id], total: total + logProbs[id] });
  if (forced !== null) return [own(forced)];
  const end = logProbs[settings.eos_id];
  for (const id of settings.never) logProbs[id] = -Infinity;
  const found = topCandidates([0], [logProbs], count).map(({ id }) => own(id)).filter((each) => each.total > -Infinity);
  return found.length ? found : [{ row, id: settings.eos_id, own: end, total: total + end }]; // the rules forbid all
}

/** The forced token at a length; null where there is none. */
function forcedAt(length, prefix, longest, settings) {
  return length < prefix.length ? prefix[length] : length >= longest ? settings.eos_id : null;
}

/** The most probable token at each step. */
export async function greedySearch(task) {
  const { settings, prefix } = task;
  const ends = new Set([settings.eos_id, ...settings.ends]);
  const longest = longestOf(settings.limits, task);
  const rows = await Rows.begin(task);
  for (;;) {
    const [{ ids, total }] = rows.held;
    if (settings.cut && ids.length >= longest) return { best: { ids, logProb: total, ended: false }, tree: null };
    const [logProbs] = await rows.next();
    const [best] = choices(logProbs, { row: 0, total, count: 1, forced: forcedAt(ids.length, prefix, longest, settings), settings });
    if (ends.has(best.id)) return { best: { ids, logProb: best.total, ended: true }, tree: null };
    rows.grow([best]);
  }
}

/**
 * Beam search with its tree. A hypothesis is continued as long as it could still win: log-probabilities only fall, so its
 * best possible score is its present one over the penalty of the greatest length. `settings` may stop it earlier.
 */
export async function beamSearch(task) {
  const { settings, prefix, size } = task;
  const ends = new Set([settings.eos_id, ...settings.ends]);
  const penalty = lengthPenalty(settings);
  const longest = longestOf(settings.limits, task);
  const finished = new Finished(settings.heuristic_stopping ? size : 1);
  const tree = new Tree();
  const rows = await Rows.begin(task);
  for (let length = 0; ; length += 1) {
    const forced = forcedAt(length, prefix, longest, settings);
    const logProbs = await rows.next();
    const all = rows.held.flatMap(({ total }, row) => choices(logProbs[row], { row, total, count: size + 1, forced, settings }));
    all.sort((one, other) => other.total - one.total || one.id - other.id); // stable: then the better parent
    const found = all.slice(0, 2 * size).map((each, place) => ({ ...each, ended: ends.has(each.id) && place < size }));
    for (const { row, total } of found.filter(({ ended }) => ended)) {
      finished.add({ ids: rows.held[row].ids, logProb: total, ended: true, score: total / penalty(length + 1) });
    }
    const room = found.filter(({ id }) => !ends.has(id)).slice(0, size);
    const kept = new Set(continued(room, { finished, settings, size, now: penalty(Math.max(1, length + 1)), greatest: penalty(longest + 1) }));
    for (const each of found) tree.add(rows.held[each.row].ids, each, { length, score: each.total / penalty(length + 1), kept: kept.has(each) });
    if (!kept.size) break;
    rows.grow([...kept]);
    if (!settings.cut || length + 1 < longest) continue;
    for (const { ids, total } of rows.held) {
      tree.stop(ids);
      finished.add({ ids, logProb: total, ended: false, score: total / penalty(length + 1) });
    }
    break;
  }
  const [best] = finished.found;
  if (best) tree.end(best.ids, ends);
  return { best, tree: { size, nodes: tree.nodes } };
}

/** The candidates that are continued. */
function continued(room, { finished, settings, size, now, greatest }) {
  if (settings.heuristic_stopping) return room.length && room[0].total / now > finished.bar ? room : [];
  if (settings.early_stopping) return finished.ended < size ? room : [];
  return room.filter(({ total }) => total / greatest > finished.bar);
}

/** The best finished hypotheses; `bar` is what a score must exceed to be among them. */
class Finished {
  constructor(most) {
    this.most = most;
    this.found = [];
    this.ended = 0;
    this.bar = -Infinity;
  }

  add(hypothesis) {
    const key = String(hypothesis.ids);
    const same = this.found.find(({ ids }) => String(ids) === key); // ended by another token
    if (!same || same.score < hypothesis.score) this.found = [...this.found.filter((each) => each !== same), hypothesis];
    this.found.sort((one, other) => other.score - one.score || compared(one.ids, other.ids));
    this.found = this.found.slice(0, this.most);
    this.ended += 1;
    this.bar = this.found.length === this.most ? this.found.at(-1).score : -Infinity;
  }
}

function compared(one, other) {
  const place = one.findIndex((id, at) => id !== other[at]);
  if (place < 0) return one.length - other.length;
  return place < other.length ? one[place] - other[place] : 1;
}

/** The candidates of a beam, each after its parent. */
class Tree {
  constructor() {
    this.nodes = [];
    this.places = new Map(); // path -> its node
  }

  add(before, { id, own, total, ended }, { length, score, kept }) {
    this.places.set(String([...before, id]), this.nodes.length);
    this.nodes.push({
      id: this.nodes.length, parent: this.places.get(String(before)) ?? null, step: length, token_id: id,
      log_prob: rounded(own), total: rounded(total), score: rounded(score), state: ended ? "ended" : kept ? "live" : "dropped",
    });
  }

  nodeAt(ids) {
    return this.nodes[this.places.get(String(ids))];
  }

  /** Marks a hypothesis that ends without an end. */
  stop(ids) {
    this.nodeAt(ids).state = "ended";
  }

  /** Marks the end of the answer: of several that end these ids the best. */
  end(ids, ends) {
    const paths = [ids, ...[...ends].map((end) => [...ids, end])];
    const found = paths.map((path) => this.nodeAt(path)).filter((node) => node?.state === "ended");
    found.sort((one, other) => other.score - one.score)[0].state = "best";
  }
}
