// The models of a tokenizer.json: words -> ids.

const UNKNOWN_PENALTY = 10; // of an unknown character, below the least score of a unigram model

/** The model: `ids` are those of its pieces, `encode` gives those of a word. */
export function model(part) {
  switch (part.type) {
    case "BPE":
      return bpe(part);
    case "WordLevel":
      return wordLevel(part);
    case "WordPiece":
      return wordPiece(part);
    case "Unigram":
      return unigram(part);
    default:
      throw new Error(`the model ${part.type} is not supported`);
  }
}

function wordLevel({ vocab, unk_token }) {
  const ids = new Map(Object.entries(vocab));
  return { ids, encode: (word) => [ids.get(word) ?? ids.get(unk_token)] };
}

/** The longest piece at each place, from left to right. */
function wordPiece({ vocab, unk_token, continuing_subword_prefix: prefix, max_input_chars_per_word: most }) {
  const ids = new Map(Object.entries(vocab));
  const encode = (word) => {
    const characters = [...word];
    if (characters.length > most) return [ids.get(unk_token)];
    const found = [];
    for (let first = 0; first < characters.length; ) {
      let last = characters.length;
      const piece = () => (first ? prefix : "") + characters.slice(first, last).join("");
      while (last > first && !ids.has(piece())) last -= 1;
      if (last === first) return [ids.get(unk_token)];
      found.push(ids.get(piece()));
      first = last;
    }
    return found;
  };
  return { ids, encode };
}

/** Byte pair encoding: of all pairs that have a merge, the earliest merge first. */
function bpe(part) {
  const refused = ["continuing_subword_prefix", "end_of_word_suffix", "dropout"].find((name) => part[name]);
  if (refused) throw new Error(`BPE with ${refused} is not supported`);
  const ids = new Map(Object.entries(part.vocab));
  const merges = new Map();
  part.merges.forEach((pair, rank) => {
    const [left, right] = typeof pair === "string" ? pair.split(" ") : pair;
    merges.set(`${ids.get(left)} ${ids.get(right)}`, { rank, id: ids.get(left + right) });
  });
  const symbols = (word) => (part.ignore_merges && ids.has(word) ? [ids.get(word)] : merged(symbolsOf(word, part, ids), merges));
  return { ids, encode: symbols };
}

/** The ids of a word's characters. */
function symbolsOf(word, { unk_token, fuse_unk, byte_fallback }, ids) {
  const found = [];
  let unknown = false;
  for (const character of word) {
    const id = ids.get(character);
    const bytes = id === undefined && byte_fallback ? bytePieces(character).map((piece) => ids.get(piece)) : [undefined];
    if (id !== undefined) found.push(id);
    else if (!bytes.includes(undefined)) found.push(...bytes);
    else if (unk_token !== null && !(fuse_unk && unknown)) found.push(ids.get(unk_token));
    unknown = id === undefined && bytes.includes(undefined);
  }
  return found;
}

function merged(ids, merges) {
  const found = [...ids];
  const mergeAt = (place) => merges.get(`${found[place]} ${found[place + 1]}`);
  const pairs = found.map((_, place) => mergeAt(place)); // of each id and the one after it
  for (;;) {
    let best = -1;
    for (let place = 0; place < pairs.length; place += 1) {
      if (pairs[place] && (best < 0 || pairs[place].rank < pairs[best].rank)) best = place;
    }
    if (best < 0) return found;
    found.splice(best, 2, pairs[best].id);
    pairs.splice(best, 1);
    pairs[best] = mergeAt(best);
    if (best) pairs[best - 1] = mergeAt(best - 1);
  }
}

/** The most probable pieces (Kudo 2018): their scores have the greatest sum. */
function unigram({ vocab, unk_id, byte_fallback }) {
  const ids = new Map(vocab.map(([piece], id) => [piece, id]));
  const root = trie(vocab);
  const unknown = vocab.reduce((least, [, score]) => Math.min(least, score), Infinity) - UNKNOWN_PENALTY;
  const encode = (word) => {
    const characters = [...word];
    return fused(bestPath(characters, root, unknown)).flatMap(({ id, first, last }) => {
      if (id !== null) return [id];
      const text = characters.slice(first, last).join("");
      const bytes = byte_fallback ? bytePieces(text).map((piece) => ids.get(piece)) : [undefined];
      return bytes.includes(undefined) ? [unk_id] : bytes;
    });
  };
  return { ids, encode };
}

/** The pieces by their characters; of two of the same text the last one. */
function trie(vocab) {
  const root = { next: new Map() };
  vocab.forEach(([piece, score], id) => {
    let node = root;
    for (const character of piece) {
      if (!node.next.has(character)) node.next.set(character, { next: new Map() });
      node = node.next.get(character);
    }
    if (piece) Object.assign(node, { id, score });
  });
  return root;
}

/** The pieces of the best path: where each begins and ends, and its id, null of an unknown character. */
function bestPath(characters, root, unknown) {
  const best = Array.from({ length: characters.length + 1 }, () => null); // by where a piece ends
  const offer = (last, piece) => {
    if (!best[last] || piece.total > best[last].total) best[last] = piece;
  };
  for (let first = 0; first < characters.length; first += 1) {
    const before = first ? best[first].total : 0;
    let single = false;
    let node = root;
    for (let last = first; last < characters.length; last += 1) {
      node = node.next.get(characters[last]);
      if (!node) break;
      if (node.id === undefined) continue;
      offer(last + 1, { first, last: last + 1, id: node.id, total: node.score + before });
      if (last === first) single = true;
    }
    if (!single) offer(first + 1, { first, last: first + 1, id: null, total: unknown + before });
  }
  const path = [];
  for (let last = characters.length; last > 0; last = best[last].first) path.push(best[last]);
  return path.reverse();
}

/** Unknown characters beside each other as one. */
function fused(path) {
  const found = [];
  for (const piece of path) {
    const previous = found.at(-1);
    if (piece.id === null && previous?.id === null) previous.last = piece.last;
    else found.push({ ...piece });
  }
  return found;
}

function bytePieces(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
}
