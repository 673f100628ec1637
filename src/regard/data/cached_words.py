"""Ids of texts by the words that they repeat: the library splits each word once.

Most tokenisers that regard trains divide a text into words before they split these into pieces, so the ids of
a text are those of its words, one after another. A text with rarer characters is left to the library, which
knows all of Unicode.
"""

import json
import re
from typing import Any

import tokenizers

from regard.data.tokenizer_file import PIECE_PATTERN, PIECES_AND_DIGITS

MOST_WORDS = 50_000  # that are kept, in some 12 MB; then all are dropped
LETTERS = (
    "A-Za-zÀ-ÖØ-öø-\u012f\u0131-\u017f"  # which NFC leaves as they are, and both libraries lowercase alike
)
KNOWN = re.compile(f"[ -~{LETTERS}×÷‘’“”„–—…«»¡¿€]*")


class CachedWords:
    """The ids of words that were seen, for one tokeniser."""

    def __init__(self, backend: tokenizers.Tokenizer, words: re.Pattern[str], *, lowercase: bool) -> None:
        self._backend, self._words, self._lowercase = backend, words, lowercase
        self._ids: dict[str, list[int]] = {}

    @classmethod
    def of(cls, backend: tokenizers.Tokenizer) -> "CachedWords | None":
        """Those of a tokeniser; None if it does not divide texts into words by a pattern of regard."""
        content = json.loads(backend.to_str())
        words, steps = _words(content["pre_tokenizer"]), _steps(content["normalizer"])
        plain = not any(content[name] for name in ("post_processor", "truncation", "padding"))
        special = all(each["special"] for each in content["added_tokens"])
        if words is None or steps is None or not plain or not special or content["model"].get("dropout"):
            return None
        of_words = tokenizers.Tokenizer.from_str(json.dumps({**content, "normalizer": None}))
        of_words.encode_special_tokens = True
        return cls(of_words, words, lowercase="Lowercase" in steps)

    def encode(self, text: str) -> list[int] | None:
        """The ids of a text; None if it has other characters than KNOWN."""
        if KNOWN.fullmatch(text) is None:
            return None
        if not text:
            return []
        found: list[int] = []
        for word in self._words.findall(" " + (text.lower() if self._lowercase else text)):
            ids = self._ids.get(word)
            found += self._split(word) if ids is None else ids
        return found

    def _split(self, word: str) -> list[int]:
        if len(self._ids) >= MOST_WORDS:
            self._ids.clear()
        ids = self._ids[word] = self._backend.encode(word, add_special_tokens=False).ids
        return ids


def _words(pre_tokenizer: Any) -> re.Pattern[str] | None:
    """What finds words of KNOWN characters as the tokeniser does, which may then divide words further."""
    parts = (pre_tokenizer or {}).get("pretokenizers") or [pre_tokenizer or {}]
    pattern = (parts[0].get("pattern") or {}).get("Regex")
    usual = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    if pattern not in (PIECE_PATTERN, PIECES_AND_DIGITS) or parts[0] != usual:
        return None
    known = pattern.replace(r"\p{L}\p{M}", LETTERS).replace(r" ?\p{N}|", " ?[0-9]|")
    return re.compile(known.replace(r"\p{N}", "0-9").replace(r"\s", " "))


def _steps(normalizer: Any) -> list[str] | None:
    """The types of the normaliser's steps; None if it does more than NFC, lowercase and a space before."""
    parts = (normalizer or {}).get("normalizers") or []
    if not parts or parts[-1] != {"type": "Prepend", "prepend": " "}:
        return None
    steps = [each["type"] for each in parts[:-1]]
    return steps if {*steps} <= {"NFC", "Lowercase"} else None
