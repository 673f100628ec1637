// Looks of new texts by the graphs of this folder: what `regard look` computes, as its summary, JSON and arrays.

import { Model } from "./generate.js";
import { clearestAlignment, pharaoh } from "./look_alignment.js";
import { continued, translated } from "./look_answers.js";
import { architecture } from "./look_architecture.js";
import { array, greatest } from "./look_arrays.js";
import { headStatistics, rollout } from "./look_heads.js";
import { positions } from "./look_positions.js";
import { keptLogits, lens, neighbours, steps } from "./look_predictions.js";
import { parseNpy } from "./npy.js";

const NONE = []; // no ids to compare

/** The model of a folder, and the tables that it has for its looks. */
export class Looks {
  /** `files`: those of `Model.open`, in which config.json has `look`. */
  static async open(runtime, files) {
    const looks = new Looks();
    looks.model = await Model.open(runtime, files);
    looks.table = looks.model.config.look;
    looks.pieces = JSON.parse(new TextDecoder().decode(files["pieces.json"]));
    looks.positions = files["positions.npy"] ? parseNpy(files["positions.npy"]) : null;
    looks.sessions = { encoder: looks.model.encoder, decoder: looks.model.decoder };
    const { layers } = looks.model.config.cache;
    const held = (prefix) => [...Array(layers).keys()].flatMap((layer) => [`${prefix}key_${layer}`, `${prefix}value_${layer}`]);
    looks.model.encoder = looks.asking("encoder", held("memory_"));
    looks.model.decoder = looks.asking("decoder", ["logits", ...held("")]);
    return looks;
  }

  /** A graph as a search asks it: for the last layer's logits, and for nothing that views show. */
  asking(name, outputs) {
    if (!this.sessions[name]) return null;
    return { run: (inputs) => this.sessions[name].run({ ...inputs, ...this.choice(name, [this.table.layers], NONE) }, outputs) };
  }

  /** Which layers a graph projects to logits, and the ids whose embeddings it compares. */
  choice(name, layers, compared) {
    const wanted = { compared: this.model.integers(compared, [compared.length]) };
    return name === "encoder" ? wanted : { layers: this.model.integers(layers, [layers.length]), ...wanted };
  }

  /** The look of a request {text, target, prefix, prefix_ids, beam_size}: {summary, json, arrays}. */
  async look(request) {
    refuseChanges(request);
    const { answer, ids, tree } = await (this.model.translates ? translated : continued)(this, request);
    const sequences = Object.fromEntries(Object.entries(ids).map(([name, each]) => [name, this.sequence(each, name === "source" ? name : "target")]));
    const { logits, ...observed } = await this.observed(ids);
    const found = this.resources({ sequences, logits, tree, ...observed });
    const summary = {
      ...this.table.summary,
      sequences,
      text: request.text,
      request: kept(request),
      image: null,
      answer,
      alignment: found.alignment,
      logits: { vocab_size: logits.dims.at(-1), kept: found.kept },
      changes: { heads: {}, layers: [], tokens: [] },
      resources: [...Object.keys(found.json), ...Object.keys(found.arrays)],
      slow: [],
      elsewhere: this.table.elsewhere.filter((name) => !(name in found.json)),
    };
    return { summary, json: found.json, arrays: found.arrays };
  }

  /** The forced pass of an answer: all that the graphs put out. */
  async observed({ source, read }) {
    const encoder = source && { ids: this.model.matrix([source]), lengths: this.model.integers([source.length], [1]) };
    const encoded = source ? await this.sessions.encoder.run({ ...encoder, ...this.choice("encoder", [], source) }) : {};
    const memory = Object.fromEntries(Object.entries(encoded).filter(([name]) => name.startsWith("memory_")));
    const given = { ids: this.model.matrix([read]), ...(source ? { lengths: encoder.lengths } : {}), ...memory, ...this.model.emptyCache() };
    const layers = [...Array(this.table.layers + 1).keys()];
    const decoded = await this.sessions.decoder.run({ ...given, ...this.choice("decoder", layers, read) });
    const tensors = Object.fromEntries([...Object.entries(encoded), ...Object.entries(decoded)].filter(([name]) => name.includes("/")));
    return { tensors, cosines: { source: encoded.cosines, read: decoded.cosines }, logits: decoded.logits };
  }

  /** The log-probability of the ids after those that are read, from the place `start` on; `memory` is the source's. */
  async logProbOf(read, written, { memory = {}, start = 0 } = {}) {
    const { logits } = await this.model.decoder.run({ ids: this.model.matrix([read]), ...memory, ...this.model.emptyCache() });
    const width = logits.dims.at(-1);
    const each = steps(logits.data, written, width, null).slice(start);
    return each.reduce((sum, step) => sum + step.exact, 0);
  }

  /** The most likely id after these. */
  async mostLikelyAfter(ids) {
    const { logits } = await this.model.decoder.run({ ids: this.model.matrix([ids]), ...this.model.emptyCache() });
    return greatest(logits.data.subarray(-logits.dims.at(-1)), 1)[0];
  }

  refuseMany(count, what) {
    const most = Math.min(this.table.most_tokens, this.table.most_positions ?? Infinity);
    if (count > most) throw new Error(`${what} has ${count} tokens, more than ${most}; shorten it to ${most} tokens`);
  }

  refuseUnknown(ids) {
    const { length } = this.pieces.target;
    if (ids.some((id) => !(id >= 0 && id < length))) throw new Error(`prefix_ids has an id outside the vocabulary; ids are from 0 to ${length - 1}`);
  }

  sequence(ids, side) {
    const special = new Set(this.table.special[side]);
    return { tokens: ids.map((id) => this.pieces[side][id]), ids, special: ids.map((id) => special.has(id)) };
  }

  /** All resources of a pass, by path, and what a summary has of them. */
  resources({ sequences, tensors, cosines, logits, tree }) {
    const { attentions } = this.table.summary;
    const arrays = Object.fromEntries(Object.entries(tensors).map(([path, tensor]) => [path, array(tensor)]));
    const weights = (site) => arrays[`attention/${site.name}`];
    const alignment = clearestAlignment(attentions.filter((site) => site.part === "cross").map((site) => ({ site, weights: weights(site) })));
    if (alignment) arrays.alignment = alignment.mean;
    for (const part of ["encoder", "decoder"]) {
      const layers = attentions.filter((site) => site.part === part).map(weights);
      if (layers.length) arrays[`rollout/${part}`] = rollout(layers);
    }
    const [count, length, width] = [this.table.layers + 1, sequences.written.ids.length, logits.dims.at(-1)];
    const last = logits.data.subarray((count - 1) * length * width);
    const token = (id) => this.pieces.target[id];
    const logitResources = keptLogits(last, length, width, token);
    Object.assign(arrays, logitResources.arrays);
    const where = positions(this.table.positions, this.positions, Math.max(...Object.values(sequences).map(({ ids }) => ids.length)));
    Object.assign(arrays, where.arrays);
    const costs = architecture(this.table.architecture, sequences);
    const json = {
      heads: attentions.flatMap((site) => headStatistics(site, weights(site), sequences, alignment?.links ?? [])),
      steps: steps(last, sequences.written.ids, width, token).map(({ exact, ...step }) => step),
      logit_tokens: logitResources.tokens,
      lens: lens(logits.data, sequences.written.ids, width, count, token),
      ...(tree ? { beam: { beam_size: tree.size, nodes: tree.nodes.map((node) => ({ ...node, token: token(node.token_id) })) } } : {}),
      neighbours: {
        ...(sequences.source ? { source: neighbours(cosines.source, sequences.source.ids, (id) => this.pieces.source[id]) } : {}),
        read: neighbours(cosines.read, sequences.read.ids, token),
      },
      positions: where.json,
      ...(costs ? { architecture: costs } : {}),
    };
    const summary = alignment && {
      name: alignment.site.name, layer: alignment.site.layer, heads: null, why: alignment.why, pharaoh: pharaoh(alignment.links), pairs: alignment.links,
    };
    return { json, arrays, alignment: summary, kept: logitResources.kept };
  }
}

function refuseChanges({ changes }) {
  const { heads = {}, layers = [], tokens = [] } = changes ?? {};
  if (Object.values(heads).flat().length || layers.length || tokens.length) throw new Error("switching parts off needs `regard look`, which runs the model itself");
}

/** The values of a request that are set. */
function kept(request) {
  return Object.fromEntries(Object.entries(request).filter(([name, value]) => name !== "changes" && (value ?? null) !== null));
}
