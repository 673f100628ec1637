// Reads a tokenizer.json: ids of texts and texts of ids, the same as those of the library that wrote it.

import { model } from "./tokenizer_models.js";
import { decoder, normalizer, preTokenizer } from "./tokenizer_parts.js";

/** The parts of a tokenizer.json. No text encodes to a special token, not even one that spells it. */
export class Tokenizer {
  /** `characters`: the classes of characters that the library has, which a browser may know otherwise. */
  constructor(file, characters) {
    const common = file.added_tokens.find((token) => !token.special);
    if (common) throw new Error(`the added token ${common.content} is not supported`);
    this.normalize = normalizer(file.normalizer, characters);
    this.split = preTokenizer(file.pre_tokenizer, characters);
    this.model = model(file.model);
    this.join = decoder(file.decoder, characters);
    this.pieces = new Map(file.added_tokens.map(({ id, content }) => [id, content]));
    for (const [piece, id] of this.model.ids) this.pieces.set(id, piece);
  }

  /** The ids of a text, without those that a model wants before or after it. */
  encode(text) {
    return this.words(text).flatMap((word) => this.wordIds(word));
  }

  /** The parts of a text that no token crosses. */
  words(text) {
    if (/\p{Surrogate}/u.test(text)) throw new Error("the text has half of a character (a lone surrogate)");
    return this.split([this.normalize(text)]).filter(Boolean);
  }

  /** The ids of such a part. */
  wordIds(word) {
    return this.model.encode(word);
  }

  /** The text of ids; of an id that there is not, nothing. */
  decode(ids) {
    return this.join(ids.map((id) => this.pieces.get(id)).filter((piece) => piece !== undefined)).join("");
  }
}
