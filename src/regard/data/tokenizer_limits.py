"""How much a tokenizer.json may ask of the library: number and length of its parts, growth of a text.

Each part of such a file is harmless by itself. In a row they are not: 36 `Replace` that double a letter make
64 GB of one token, in a call of the library that nothing can interrupt.
"""

import base64
import binascii
import math
from collections.abc import Iterable, Mapping
from typing import Any

MOST_PARTS = 32  # of normaliser, pre-tokeniser or decoder; the largest of known families has 8
MOST_LETTERS = 5000  # of a text in a part
MOST_ADDED = 1024  # bytes that parts put before a text, together
MOST_GROWTH = 1024  # how many bytes one byte of a text may become before it is cut into pieces,
MOST_GROWTH_BACK = 16  # and how many one byte of a piece may become in the decoder
MOST_PIECES = 4_000_000
MOST_PIECE = 10_000  # characters of one
MOST_WORD = 512  # characters of a word that WordPiece looks at: its time grows with their cube
MOST_MARKS, MOST_IN_MARKS = 100_000, 4_000_000  # added tokens, and their characters
CHARSMAP = "precompiled_charsmap"
MOST_CHARSMAP = 8 * 2**20  # characters of sentencepiece's table; T5's has 320,000
INNER = ("normalizers", "pretokenizers", "decoders")  # where a part holds others

# How many bytes one byte becomes at the most (Unicode's FAQ on normalisation); 1 where nothing is said
GROWTH = {
    "NFC": 3.0,
    "NFD": 3.0,
    "NFKC": 11.0,
    "NFKD": 11.0,
    "Lowercase": 1.5,
    "BertNormalizer": 8.0,
    "ByteLevel": 2.0,
}
GROWTH_BACK = {"ByteLevel": 3.0}  # a byte that is no character becomes U+FFFD
LEAST_MATCH = {" {2,}": 2, r"\A<unk>\z": 5}  # bytes that a known expression matches, where more than one


def refuse_large(content: Mapping[str, Any]) -> None:
    """Raise ValueError (or LookupError, or TypeError) if a text may become too much by this tokeniser."""
    growth = {"normalizer": GROWTH, "pre_tokenizer": GROWTH, "decoder": GROWTH_BACK}
    grown = {}
    for name, table in growth.items():
        found = _parts(content[name], name)
        added = sum(len(str(part.get("prepend", "")).encode()) for part in found)
        if added > MOST_ADDED:
            raise ValueError(f"{name} puts {added:,} bytes before a text, more than {MOST_ADDED:,}")
        grown[name] = math.prod((max(1.0, _growth(part, table)) for part in found), start=1.0)
    _refuse_growth("normalizer and pre_tokenizer", grown["normalizer"] * grown["pre_tokenizer"], MOST_GROWTH)
    _refuse_growth("decoder", grown["decoder"], MOST_GROWTH_BACK)
    if not isinstance(content["model"], dict):
        raise ValueError("its model is no table")
    _refuse_large_model(content["model"])
    marks = [token["content"] for token in content["added_tokens"]]
    if len(marks) > MOST_MARKS or sum(map(len, marks)) > MOST_IN_MARKS:
        raise ValueError(f"it has {len(marks):,} added tokens, {sum(map(len, marks)):,} characters")


def _refuse_growth(name: str, growth: float, most: int) -> None:
    if growth > most:
        raise ValueError(f"{name} may make a text {growth:.3g} times as long, more than {most:,}")


def _parts(whole: object, name: str) -> list[Mapping[str, Any]]:
    """All parts of a normaliser, pre-tokeniser or decoder, those within others too."""
    found: list[Mapping[str, Any]] = []
    waiting = [whole]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            found.append(part)
            waiting += [part[inner] for inner in INNER if inner in part]
        if len(found) > MOST_PARTS:
            raise ValueError(f"{name} has more than {MOST_PARTS} parts")
    for part in found:
        for key, text in _texts(part):
            if len(text) > (MOST_CHARSMAP if key == CHARSMAP else MOST_LETTERS):
                raise ValueError(f"{name} has a {key} of {len(text):,} characters")
    return found


def _texts(part: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for key, value in part.items():
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, dict) and key not in INNER:
            yield from _texts(value)


def _growth(part: Mapping[str, Any], table: Mapping[str, float]) -> float:
    """How many bytes one byte becomes by this part, at the most."""
    match part:
        case {"type": "Replace", "pattern": {"String": str(pattern)}, "content": str(content)}:
            if not pattern:
                raise ValueError("it replaces the empty text")
            return len(content.encode()) / len(pattern.encode())
        case {"type": "Replace", "pattern": {"Regex": str(pattern)}, "content": str(content)}:
            return len(content.encode()) / LEAST_MATCH.get(pattern, 1)
        case {"type": "Precompiled", "precompiled_charsmap": str(charsmap)}:
            return _longest_of(charsmap)
        case {"type": str(kind)}:
            return table.get(kind, 1.0)
    return 1.0


def _longest_of(charsmap: str) -> float:
    """The longest text that sentencepiece's table puts in the place of another, in bytes.

    The table is the size of a trie in 4 bytes, the trie, and texts that NULs end.
    """
    try:
        table = base64.b64decode(charsmap, validate=True)
    except binascii.Error as error:
        raise ValueError("its precompiled_charsmap is no base64") from error
    texts = table[4 + int.from_bytes(table[:4], "little") :]
    return float(max(map(len, texts.split(b"\0"))))


def refuse_unknown(model: Mapping[str, Any]) -> None:
    """Raise ValueError unless the model has a piece for what it does not know, if it wants one.

    The library tells only when a text has such a word.
    """
    kind, unknown = model.get("type"), model.get("unk_token")
    needed = unknown is not None or kind in ("WordPiece", "WordLevel")
    if kind in ("BPE", "WordPiece", "WordLevel") and needed and unknown not in model["vocab"]:
        raise ValueError(f"its vocabulary lacks {unknown!r}, the piece for what is unknown")
    if kind == "Unigram" and model.get("unk_id") is None:
        raise ValueError("unk_id, the piece for what is unknown, is missing")


def _refuse_large_model(model: Mapping[str, Any]) -> None:
    for key, text in ((key, text) for key, text in model.items() if isinstance(text, str)):
        if len(text) > MOST_LETTERS:
            raise ValueError(f"model has a {key} of {len(text):,} characters")
    if (most := model.get("max_input_chars_per_word") or 0) > MOST_WORD:
        raise ValueError(f"max_input_chars_per_word = {most} is more than {MOST_WORD}")
    pieces = model["vocab"]
    if len(pieces) > MOST_PIECES or len(model.get("merges") or ()) > MOST_PIECES:
        raise ValueError(f"its vocabulary has more than {MOST_PIECES:,} pieces")
    longest = max((len(piece if isinstance(pieces, dict) else piece[0]) for piece in pieces), default=0)
    if longest > MOST_PIECE:
        raise ValueError(f"it has a piece of {longest:,} characters")
