"""Converts vocabularies of words and codes of subword-nmt (Sennrich et al. 2016) to tokenizer.json.

Both read texts whose words are separated by spaces, as the toolkits' own tokeniser wrote them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from regard.data.tokenizer_file import UNK, UNKNOWN_WORD
from regard.data.tokenizer_pretrained import bpe_model, new_file, pipeline_parts, replacement
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


def from_characters(vocabulary: Mapping[str, int], unk: str) -> dict[str, Any]:
    """The tokenizer.json of characters, of which ▁ is a space; longer pieces match no text."""
    return new_file(
        normalizer=replacement({"String": " "}, "▁"),
        pre_tokenizer=None,
        model=bpe_model(
            {**{p: n for p, n in vocabulary.items() if len(p) == 1}, unk: vocabulary[unk]}, [], unk
        ),
        decoder=pipeline_parts(
            "decoders",
            [replacement({"String": "▁"}, " "), {"type": "Fuse"}],
        ),
    )


class SubwordNMT(NamedTuple):
    """The tokenizer.json of BPE codes, and the splits of pieces that the vocabulary lacks."""

    content: dict[str, Any]
    splits: dict[int, tuple[int, ...]]


def from_subword_nmt(
    codes: Sequence[str],
    vocabulary: Mapping[str, int],
    special: Sequence[str],
    *,
    joiner: str = "@@",
    restricted: bool = False,
) -> SubwordNMT:
    """The tokenizer.json of BPE codes, for a vocabulary in which a piece that is continued ends in `joiner`.

    `special` are tokens of the vocabulary that no text encodes to; the first is the unknown token. Pieces
    that the vocabulary lacks get ids beyond it. They encode to the unknown token; if `restricted`, they are
    split until the vocabulary has the parts, as `subword-nmt apply-bpe --vocabulary` does.

    Raises:
        DataError: the codes are damaged, or of subword-nmt before 0.2, which ends words in another way.
    """
    merges = _merges(codes)
    known = {own: n for p, n in vocabulary.items() if p not in special and (own := _own_form(p, joiner))}
    pieces = {**known, **{token: vocabulary[token] for token in special if token in vocabulary}}
    following = max(vocabulary.values(), default=-1) + 1
    for left, right in merges:
        for piece in (*_symbols(left), *_symbols(right), left, right, left + right):
            if piece not in pieces:
                pieces[piece], following = following, following + 1
    splits = _splits(merges, pieces, known, vocabulary[special[0]]) if restricted else {}
    content = new_file(
        normalizer=None,
        pre_tokenizer={"type": "WhitespaceSplit"},
        model=bpe_model(pieces, merges, special[0], end=WORD_END),
        decoder=pipeline_parts(
            "decoders",
            [
                replacement({"Regex": UNKNOWN_WORD}, f"{UNK}{WORD_END}"),
                {"type": "BPEDecoder", "suffix": WORD_END},
            ],
        ),
    )
    return SubwordNMT(content, splits)


def _own_form(piece: str, joiner: str) -> str:
    """A piece of a vocabulary as BPE has it: the last of a word ends in `WORD_END`, others do not."""
    continued = bool(joiner) and piece.endswith(joiner) and len(piece) > len(joiner)
    return piece.removesuffix(joiner) if continued else f"{piece}{WORD_END}"


def _splits(
    merges: Sequence[tuple[str, str]], pieces: Mapping[str, int], known: Mapping[str, int], unk: int
) -> dict[int, tuple[int, ...]]:
    """The ids of the parts of each piece that is not `known`: its merge is undone until all parts are."""
    parts: dict[str, tuple[str, str]] = {}
    for left, right in merges:
        parts.setdefault(left + right, (left, right))
    found: dict[str, tuple[int, ...]] = {}

    def split(piece: str) -> tuple[int, ...]:
        waiting, ids = [piece], []
        while waiting:
            part = waiting.pop()
            if part in known:
                ids.append(known[part])
            elif part in parts:
                waiting += reversed(parts[part])
            else:
                ids.append(unk)
        return tuple(ids)

    for piece in parts:
        if piece not in known:
            found[piece] = split(piece)
    return {pieces[piece]: ids for piece, ids in found.items()}


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
            raise DataError(f"line {number} of the BPE codes is not a pair: {line[:40]!r}", CODES_HINT)
        pairs.setdefault((parts[0], parts[1]))
    return list(pairs)


def _symbols(piece: str) -> list[str]:
    """The symbols that a word with this piece begins with: characters, the last one with the word's end."""
    inner = piece.removesuffix(WORD_END)
    if inner == piece:
        return list(inner)
    return [*inner[:-1], f"{inner[-1:]}{WORD_END}"]
