// The request of a Look as text in the address, so that a link leads to the same Look and not only to the same view.

const KEYS = ["text", "target", "prefix", "prefix_ids", "beam_size", "max_new_tokens", "changes"];
const LONGEST = 2000; // characters; a longer request is not put into the address

/** The request as text; null for none, and for one that is too long. */
export function asked(request) {
  if (!request) return null;
  const { heads = {}, layers = [], tokens = [] } = request.changes ?? {};
  const changed = Object.keys(heads).length || layers.length || tokens.length;
  const kept = Object.fromEntries(KEYS.filter((key) => (request[key] ?? null) !== null && (key !== "changes" || changed)).map((key) => [key, request[key]]));
  const words = JSON.stringify(kept);
  return words.length <= LONGEST ? words : null;
}

/** The request in this state; null if there is none or it cannot be parsed. */
export function askedBy(state) {
  try {
    const held = JSON.parse(state.get("ask") ?? "null");
    if (typeof held?.text !== "string") return null;
    return Object.fromEntries(KEYS.filter((key) => key in held).map((key) => [key, held[key]]));
  } catch {
    return null;
  }
}
