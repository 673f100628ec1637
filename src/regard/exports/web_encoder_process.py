"""The process in which node computes what an encoder's certificate compares, by the page's JavaScript.

A job comes by standard input and the answer goes to standard output, both as JSON. Nothing of regard's models
is loaded here. The tokeniser in JavaScript is compared with that of regard, which must be equal.
"""

import json
import sys
from pathlib import Path
from typing import Any

from regard.data.tokenizer import TokenizerPair
from regard.exports.odd_texts import ODD_TEXTS
from regard.exports.web_process import MOST_PIECES, pieces_as_texts, refuse_other, run

SCRIPT = Path(__file__).parent / "web_files" / "certify_encoder.js"


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """How the texts are read, and the outputs of the rows."""
    tokenizer = TokenizerPair.load(Path(job["folder"])).source
    texts = [*ODD_TEXTS, *pieces_as_texts(tokenizer)]
    ids = [[number] for number in range(min(tokenizer.vocab_size, MOST_PIECES))]
    ids += tokenizer.encode_batch(texts)
    found = run({**job, "pieces": texts, "ids": ids}, SCRIPT)
    encoded = [[number for word in tokenizer.encode_words(text) for number in word] for text in texts]
    refuse_other("encodes", texts, found.pop("encoded"), encoded)
    refuse_other("decodes", ids, found.pop("decoded"), [tokenizer.decode(each) for each in ids])
    return {**found, "tokenizers": {"texts_encoded": len(texts), "outputs_decoded": len(ids)}}


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
