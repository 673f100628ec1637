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
from regard.exports.web_node import node

SCRIPT = Path(__file__).parent / "web_files" / "certify.js"
MOST_PIECES = 16_384  # of a vocabulary that are texts too
TEXTS = (  # of several scripts, with what normalisers and splitters treat differently
    "Größe und Straße – „Zitat“, don't re-enter the 123.45 halls",
    "Привет, мир! Как дела?",
    "你好,世界。这是一个测试",
    "日本語のテキスト、です カタカナ ｶﾀｶﾅ",
    "مرحبا بالعالم، كيف الحال؟",
    "नमस्ते दुनिया",
    "สวัสดีชาวโลก",
    "한국어 문장 \u1112\u1161\u11ab",
    "ΣΑΣ İstanbul ǅ ẞ",
    "  two  spaces \tand\na line\r\nmore\u00a0\u3000\u0085\ufeff\u200b",
    "<s>hi</s> <unk> <pad> ##x ## A#B <0x41>",
    "e\u0301 a\u0323\u0307 \u0344 Å ﬁ ① ½ ㍿ ㋿",
    "🙂👍🏽 👨‍👩‍👧 \U0001f9ff\U00011384\U000113c5",
    "\u0600a \u06dda \u070f\u0301a a\u0301\u0323b \ta\u0301\t\u0301 a\u200db \u00a9\u200d",
    "\u088f \ua7ce \U00016ea0 \u1acf",
    "",
    " ",
)


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Greedy and beam outputs of the sources, and the log-probabilities of the forced outputs."""
    tokenizers = TokenizerPair.load(Path(job["folder"]))
    texts = [*TEXTS, *job["texts"], *_pieces(tokenizers.source)]
    ids = [[number] for number in range(min(tokenizers.target.vocab_size, MOST_PIECES))]
    ids += tokenizers.target.encode_batch(texts)
    found = run({**job, "texts": texts, "ids": ids})
    config = json.loads((Path(job["folder"]) / "config.json").read_text("utf-8"))
    begin = config["source"]["first_ids"]
    begin = begin[: len(begin) - len(tokenizers.source.prefix)]
    encoded = [[*begin, *each] for each in tokenizers.source.encode_batch(texts)]
    _refuse_other("encodes", texts, found.pop("encoded"), encoded)
    _refuse_other("decodes", ids, found.pop("decoded"), [tokenizers.target.decode(each) for each in ids])
    return {**found, "tokenizers": {"texts_encoded": len(texts), "outputs_decoded": len(ids)}}


def run(job: dict[str, Any]) -> dict[str, Any]:
    """What the JavaScript of the folder answers to a job."""
    done = subprocess.run(  # noqa: S603 (node, with a script of regard)
        [node(), str(SCRIPT)],
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


def _pieces(tokenizer: Tokenizer) -> list[str]:
    return [
        text
        for number in range(min(tokenizer.vocab_size, MOST_PIECES))
        if (text := tokenizer.decode([number]))
    ]


def _refuse_other(does: str, given: Sequence[Any], theirs: Sequence[Any], ours: Sequence[Any]) -> None:
    """End with an error if the tokeniser in JavaScript does something else."""
    for each, their, our in zip(given, theirs, ours, strict=True):
        if their != our:
            sys.exit(f"the tokeniser in JavaScript {does} {each!r} as {their!r}, not as {our!r}")


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
