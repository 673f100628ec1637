"""Converts vocabularies of words and codes of subword-nmt (Sennrich et al. 2016) to tokenizer.json.

Both read texts whose words are separated by spaces, as the toolkits' own tokeniser wrote them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.data.tokenizer_file import UNK, UNKNOWN_WORD
from regard.data.tokenizer_pretrained import new_file, pipeline_parts
from regard.errors import DataError

VERSION = "#version:"
WORD_END = "</w>"
CODES_HINT = "give the codes that `subword-nmt learn-bpe` wrote"


def from_words(vocabulary: Mapping[str, int], unk: str) -> dict[str, Any]:
    """The tokenizer.json of words: each text between white space is looked up in the vocabulary."""
    return new_file(
        normalizer=None,
        pre_tokenizer={"type": "WhitespaceSplit"},
        model={"type": "WordLevel", "unk_token": unk, "vocab": dict(vocabulary)},
        decoder=None,
    )


def from_subword_nmt(
    codes: Sequence[str], vocabulary: Mapping[str, int], special: Sequence[str], *, joiner: str = "@@"
) -> dict[str, Any]:
    """The tokenizer.json of BPE codes, for a vocabulary in which a piece that is continued ends in `joiner`.

    `special` are tokens of the vocabulary that no text encodes to; the first is the unknown token. Pieces
    that the vocabulary lacks get ids beyond it, which encode to the unknown token.

    Raises:
        DataError: the codes are damaged, or of subword-nmt before 0.2, which ends words in another way.
    """
    merges = _merges(codes)
    pieces: dict[str, int] = {token: vocabulary[token] for token in special if token in vocabulary}
    for piece, number in vocabulary.items():
        inner = joiner and piece.endswith(joiner) and len(piece) > len(joiner)
        own = piece.removesuffix(joiner) if inner else f"{piece}{WORD_END}"
        if piece not in special and own not in pieces:
            pieces[own] = number
    following = max(vocabulary.values(), default=-1) + 1
    for left, right in merges:
        for piece in (left, right, left + right):
            for symbol in _symbols(piece):
                if symbol not in pieces:
                    pieces[symbol], following = following, following + 1
            if piece not in pieces:
                pieces[piece], following = following, following + 1
    return new_file(
        normalizer=None,
        pre_tokenizer={"type": "WhitespaceSplit"},
        model={
            "type": "BPE",
            "dropout": None,
            "unk_token": special[0],
            "continuing_subword_prefix": None,
            "end_of_word_suffix": WORD_END,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": pieces,
            "merges": [list(pair) for pair in merges],
        },
        decoder=pipeline_parts(
            "decoders",
            [
                {"type": "Replace", "pattern": {"Regex": UNKNOWN_WORD}, "content": f"{UNK}{WORD_END}"},
                {"type": "BPEDecoder", "suffix": WORD_END},
            ],
        ),
    )


def _merges(codes: Sequence[str]) -> list[tuple[str, str]]:
    """The merges, best first; of a repeated one the first counts."""
    lines = [line.strip("\r\n ") for line in codes]
    if not lines or not lines[0].startswith(VERSION):
        raise DataError("the BPE codes have no #version: they are of subword-nmt 0.1", CODES_HINT)
    if (version := lines[0].removeprefix(VERSION).strip()) != "0.2":
        raise DataError(f"BPE codes of version {version} are not supported", CODES_HINT)
    pairs: dict[tuple[str, str], None] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        parts = line.split(" ")
        if len(parts) != 2 or not all(parts):
            raise DataError(f"line {number} of the BPE codes is no pair: {line[:40]!r}", CODES_HINT)
        pairs.setdefault((parts[0], parts[1]))
    return list(pairs)


def _symbols(piece: str) -> list[str]:
    """The symbols that a word with this piece begins with: characters, the last one with the word's end."""
    inner = piece.removesuffix(WORD_END)
    if inner == piece:
        return list(inner)
    return [*inner[:-1], f"{inner[-1:]}{WORD_END}"]
