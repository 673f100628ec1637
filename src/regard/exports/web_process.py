"""The process in which node computes what a certificate compares, by the page's own JavaScript.

A job comes by standard input and the answer goes to standard output, both as JSON. Nothing of regard's models
is loaded here. The tokenisers in JavaScript are compared with those of regard, which must be equal.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.exports.odd_texts import ODD_TEXTS
from regard.exports.web_node import node

SCRIPT = Path(__file__).parent / "web_files" / "certify.js"
MOST_PIECES = 16_384  # of a vocabulary that are texts too


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Greedy and beam outputs of the sources, and the log-probabilities of the forced outputs."""
    tokenizers = TokenizerPair.load(Path(job["folder"]))
    texts = [*ODD_TEXTS, *job["texts"], *pieces_as_texts(tokenizers.source)]
    ids = [[number] for number in range(min(tokenizers.target.vocab_size, MOST_PIECES))]
    ids += tokenizers.target.encode_batch(texts)
    found = run({**job, "texts": texts, "ids": ids})
    config = json.loads((Path(job["folder"]) / "config.json").read_text("utf-8"))
    begin = config["source"]["first_ids"]
    begin = begin[: len(begin) - len(tokenizers.source.prefix)]
    encoded = [[*begin, *each] for each in tokenizers.source.encode_batch(texts)]
    refuse_other("encodes", texts, found.pop("encoded"), encoded)
    refuse_other("decodes", ids, found.pop("decoded"), [tokenizers.target.decode(each) for each in ids])
    return {**found, "tokenizers": {"texts_encoded": len(texts), "outputs_decoded": len(ids)}}


def run(job: dict[str, Any], script: Path = SCRIPT) -> dict[str, Any]:
    """What the JavaScript of the folder answers to a job."""
    done = subprocess.run(  # noqa: S603 (node, with a script of regard)
        [node(), str(script)],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        why = re.search(r"^\w*Error\b.*", done.stderr, re.MULTILINE)
        sys.exit(why[0] if why else f"node ended with {done.returncode}")
    return json.loads(done.stdout)


def pieces_as_texts(tokenizer: Tokenizer) -> list[str]:
    """Each piece of a vocabulary as a text."""
    return [
        text
        for number in range(min(tokenizer.vocab_size, MOST_PIECES))
        if (text := tokenizer.decode([number]))
    ]


def refuse_other(does: str, given: Sequence[Any], theirs: Sequence[Any], ours: Sequence[Any]) -> None:
    """End with an error if the tokeniser in JavaScript does something else."""
    for each, their, our in zip(given, theirs, ours, strict=True):
        if their != our:
            sys.exit(f"the tokeniser in JavaScript {does} {each!r} as {their!r}, not as {our!r}")


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
