"""Limits for an untrusted tokenizer.json: number and size of its parts, growth of a text.

Each part of such a file is harmless by itself, but a sequence is not: 36 `Replace` parts that double a letter
make 64 GB of one token, in a library call that cannot be interrupted.
"""

import base64
import binascii
import math
from collections.abc import Iterable, Mapping
from typing import Any

MAX_PARTS = 32  # of normaliser, pre-tokeniser or decoder; the largest known has 8
MAX_TEXT = 5000  # characters of a text in a part
MAX_ADDED = 1024  # bytes that all parts together put before a text
MAX_GROWTH = 1024  # bytes that one byte of a text may become before it is split into pieces
MAX_DECODER_GROWTH = 16  # bytes that one byte of a piece may become in the decoder
MAX_PIECES = 4_000_000
MAX_PIECE_LENGTH = 10_000  # characters of a piece
MAX_WORD_LENGTH = 512  # characters of a word for WordPiece: its time grows with their cube
MAX_ADDED_TOKENS, MAX_ADDED_TOKEN_CHARACTERS = 100_000, 4_000_000  # added tokens, and their characters
CHARSMAP = "precompiled_charsmap"
MAX_CHARSMAP = 8 * 2**20  # characters of sentencepiece's table; T5's has 320,000
INNER = ("normalizers", "pretokenizers", "decoders")  # the keys of nested parts

# The most bytes that one byte becomes (Unicode's FAQ on normalisation); 1 for parts that are not listed
BYTE_GROWTH = {
    "NFC": 3.0,
    "NFD": 3.0,
    "NFKC": 11.0,
    "NFKD": 11.0,
    "Lowercase": 1.5,
    "BertNormalizer": 8.0,
    "ByteLevel": 2.0,
}
DECODER_GROWTH = {"ByteLevel": 3.0}  # an invalid byte becomes U+FFFD
# the fewest bytes that a known expression matches, if above 1
MIN_MATCH_BYTES = {" {2,}": 2, r"\A<unk>\z": 5}


def refuse_large_tokenizer(content: Mapping[str, Any]) -> None:
    """Raises ValueError (or LookupError, TypeError) if the tokeniser or the growth of a text is too large."""
    growth = {"normalizer": BYTE_GROWTH, "pre_tokenizer": BYTE_GROWTH, "decoder": DECODER_GROWTH}
    grown = {}
    for name, table in growth.items():
        found = _parts(content[name], name)
        added = sum(len(str(part.get("prepend", "")).encode()) for part in found)
        if added > MAX_ADDED:
            raise ValueError(f"{name} puts {added:,} bytes before a text, more than {MAX_ADDED:,}")
        grown[name] = math.prod((max(1.0, _growth(part, table)) for part in found), start=1.0)
    _refuse_growth("normalizer and pre_tokenizer", grown["normalizer"] * grown["pre_tokenizer"], MAX_GROWTH)
    _refuse_growth("decoder", grown["decoder"], MAX_DECODER_GROWTH)
    if not isinstance(content["model"], dict):
        raise ValueError("its model is not an object")
    _refuse_large_model(content["model"])
    added_tokens = [token["content"] for token in content["added_tokens"]]
    if len(added_tokens) > MAX_ADDED_TOKENS or sum(map(len, added_tokens)) > MAX_ADDED_TOKEN_CHARACTERS:
        raise ValueError(
            f"it has {len(added_tokens):,} added tokens, {sum(map(len, added_tokens)):,} characters"
        )


def _refuse_growth(name: str, growth: float, limit: int) -> None:
    if growth > limit:
        raise ValueError(f"{name} can make a text {growth:.3g} times as long, more than {limit:,}")


def _parts(whole: object, name: str) -> list[Mapping[str, Any]]:
    """All parts of a normaliser, pre-tokeniser or decoder, nested ones included."""
    found: list[Mapping[str, Any]] = []
    waiting = [whole]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            found.append(part)
            waiting += [part[inner] for inner in INNER if inner in part]
        if len(found) > MAX_PARTS:
            raise ValueError(f"{name} has more than {MAX_PARTS} parts")
    for part in found:
        for key, text in _texts(part):
            if len(text) > (MAX_CHARSMAP if key == CHARSMAP else MAX_TEXT):
                raise ValueError(f"{name} has a {key} of {len(text):,} characters")
    return found


def _texts(part: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for key, value in part.items():
        if isinstance(value, str):
            yield key, value
        elif isinstance(value, dict) and key not in INNER:
            yield from _texts(value)


def _growth(part: Mapping[str, Any], table: Mapping[str, float]) -> float:
    """The most bytes that one byte becomes in this part."""
    match part:
        case {"type": "Replace", "pattern": {"String": str(pattern)}, "content": str(content)}:
            if not pattern:
                raise ValueError("it replaces the empty text")
            return len(content.encode()) / len(pattern.encode())
        case {"type": "Replace", "pattern": {"Regex": str(pattern)}, "content": str(content)}:
            return len(content.encode()) / MIN_MATCH_BYTES.get(pattern, 1)
        case {"type": "Precompiled", "precompiled_charsmap": str(charsmap)}:
            return _longest_replacement(charsmap)
        case {"type": str(kind)}:
            return table.get(kind, 1.0)
    return 1.0


def _longest_replacement(charsmap: str) -> float:
    """The length in bytes of the longest replacement in sentencepiece's normalisation table.

    The table is the size of a trie in 4 bytes, the trie, and NUL-terminated texts.
    """
    try:
        table = base64.b64decode(charsmap, validate=True)
    except binascii.Error as error:
        raise ValueError("its precompiled_charsmap is not base64") from error
    texts = table[4 + int.from_bytes(table[:4], "little") :]
    return float(max(map(len, texts.split(b"\0"))))


def refuse_missing_unknown(model: Mapping[str, Any]) -> None:
    """Raises ValueError if the model needs an unknown token and has none.

    The library would report it only for a text with an unknown word.
    """
    kind, unknown = model.get("type"), model.get("unk_token")
    needed = unknown is not None or kind in ("WordPiece", "WordLevel")
    if kind in ("BPE", "WordPiece", "WordLevel") and needed and unknown not in model["vocab"]:
        raise ValueError(f"its vocabulary lacks the unknown token {unknown!r}")
    if kind == "Unigram" and model.get("unk_id") is None:
        raise ValueError("unk_id, the unknown token, is missing")


def _refuse_large_model(model: Mapping[str, Any]) -> None:
    for key, text in ((key, text) for key, text in model.items() if isinstance(text, str)):
        if len(text) > MAX_TEXT:
            raise ValueError(f"model has a {key} of {len(text):,} characters")
    if (limit := model.get("max_input_chars_per_word") or 0) > MAX_WORD_LENGTH:
        raise ValueError(f"max_input_chars_per_word = {limit} is more than {MAX_WORD_LENGTH}")
    pieces = model["vocab"]
    if len(pieces) > MAX_PIECES or len(model.get("merges") or ()) > MAX_PIECES:
        raise ValueError(f"its vocabulary has more than {MAX_PIECES:,} pieces")
    longest = max((len(piece if isinstance(pieces, dict) else piece[0]) for piece in pieces), default=0)
    if longest > MAX_PIECE_LENGTH:
        raise ValueError(f"it has a piece of {longest:,} characters")
