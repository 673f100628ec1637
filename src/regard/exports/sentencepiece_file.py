"""A tokeniser as a file of SentencePiece that yields the same pieces.

Of regard's own tokenisers the kinds bpe, unigram and characters; of others those that were read from a file
of SentencePiece. SentencePiece numbers are not used: an engine finds a piece by its text.
"""

import base64
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_file import PIECE_PATTERN, PIECES_AND_DIGITS, UNMATCHED, tokenizer_kind
from regard.data.tokenizer_sentencepiece import METASPACE, SPECIAL_TOKENS, SentencePiece
from regard.exports.refusal import NotExpressible
from regard.exports.sentencepiece_normalizer import (
    INNER,
    Normalize,
    assigned,
    compiled,
    normalization_rules,
    outside,
    outside_rules,
)
from regard.exports.sentencepiece_package import model_proto

ENGINE = "SentencePiece"
NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6  # the kinds of pieces
UNIGRAM, BPE = 1, 2  # the kinds of models
LEAST, FIRST = -1e6, 1e3  # the scores of what nothing is joined from, and of what is joined first
NEAREST = "a tokeniser of kind 'bpe', 'unigram' or 'characters' can be"


class SentencePieceFile(NamedTuple):
    """The content of a file, and the ids of pieces that are spelled unlike in `engine_pieces`."""

    content: bytes
    variants: dict[str, int]  # for apostrophes and hyphens outside words


def engine_pieces(tokenizer: Tokenizer, names: list[str]) -> list[str]:
    """The pieces of ids as SentencePiece writes them, from those as regard does."""
    if not tokenizer.trained_by_regard:
        return [name.removeprefix(UNMATCHED).removeprefix(" ") for name in names]
    found = [name.replace(" ", METASPACE) for name in names]
    first = {name: number for number, name in reversed([*enumerate(found)])}
    return [name if first[name] == number else f"<id {number}>" for number, name in enumerate(found)]


def sentencepiece_file(tokenizer: Tokenizer) -> SentencePieceFile:
    """The file for a tokeniser.

    Raises:
        NotExpressible: SentencePiece has nothing that yields the same pieces.
        MissingExtra: the package is not installed.
    """
    if tokenizer.prefix:
        raise NotExpressible(ENGINE, "prefix", tokenizer.prefix, "a model of one language pair has none")
    refuse_added_tokens(ENGINE, tokenizer)
    content = json.loads(tokenizer.to_bytes())
    if not tokenizer.trained_by_regard:
        return SentencePieceFile(_read_from_sentencepiece(content), {})
    return _trained(tokenizer, content)


def refuse_added_tokens(engine: str, tokenizer: Tokenizer) -> None:
    """Raise NotExpressible if a text can have tokens that are not pieces of words, such as `>>fr<<`."""
    for text in tokenizer.added_tokens:
        nearest = "train without tokenizer.extension.tokens: the text then is several tokens"
        raise NotExpressible(engine, "tokenizer.extension.tokens", text, nearest)


def refuse_other_kinds(tokenizer: Tokenizer) -> None:
    """Raise NotExpressible unless the pieces of an output, joined, are its text."""
    if tokenizer.trained_by_regard:
        _kind(json.loads(tokenizer.to_bytes()))


def _trained(tokenizer: Tokenizer, content: Mapping[str, Any]) -> SentencePieceFile:
    kind = _kind(content)
    vocabulary = tokenizer.vocabulary()
    normalize = _normalize(content["normalizer"])
    letters = ("L", "M") if _pattern(content) == PIECES_AND_DIGITS else ("L", "M", "N")
    marks = _joined_marks(vocabulary, letters) if kind != "characters" else []
    special = {tokenizer.pad_id, tokenizer.unk_id, tokenizer.bos_id, tokenizer.eos_id}
    scores = _scores(content, kind)
    spelled = {
        piece: _spelled(piece, marks, letters)
        for piece, number in vocabulary.items()
        if number not in special
    }
    pieces = {
        **dict.fromkeys(_unknown(spelled, normalize, kind), LEAST),
        **{piece.replace(" ", METASPACE): scores[piece] for piece in spelled},
        **{each.replace(" ", METASPACE): scores[piece] for piece, each in spelled.items()},
    }
    starts = {METASPACE + mark for mark in marks}  # found only where a text starts with a mark and a letter
    kept = starts & {piece.replace(" ", METASPACE) for piece in vocabulary}
    pieces |= dict.fromkeys(starts if kind == "bpe" else kept, FIRST)
    rules = normalization_rules(normalize)
    if marks:
        rules |= outside_rules(marks, normalize, letters)
    model = model_proto()
    _add_pieces(model, [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)])
    _add_pieces(
        model,
        # BPE takes an unused piece apart again when all are joined
        ((piece, score, UNUSED if piece in starts - kept else NORMAL) for piece, score in pieces.items()),
    )
    _set_up(model, UNIGRAM if kind == "unigram" else BPE, compiled(rules), dummy=kind != "characters")
    variants = {
        each.replace(" ", METASPACE): vocabulary[piece] for piece, each in spelled.items() if each != piece
    }
    return SentencePieceFile(model.SerializeToString(), variants)


def _kind(content: Mapping[str, Any]) -> str:
    """The kind of a tokeniser that regard trained, if SentencePiece has it."""
    model, splitter = content["model"], content["pre_tokenizer"]
    parts = json.dumps(splitter)
    if model["type"] == "Unigram":
        return "unigram"
    if model["type"] == "WordLevel":
        kind = tokenizer_kind(content)
        raise NotExpressible(ENGINE, "kind", kind, f"its unknown words are joined; {NEAREST}")
    if model["type"] == "WordPiece":
        raise NotExpressible(ENGINE, "kind", "wordpiece", NEAREST)
    if "ByteLevel" in parts:
        kind = "bytebpe" if model["merges"] else "bytes"
        raise NotExpressible(ENGINE, "kind", kind, NEAREST)
    if splitter is None:
        return "characters"
    _refuse_other_merges(model)
    return "bpe"


def _refuse_other_merges(model: Mapping[str, Any]) -> None:
    """SentencePiece joins any two pieces that are a piece together; so no others may ever be neighbours."""
    vocabulary, merges = model["vocab"], [tuple(pair) for pair in model["merges"]]
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    if len({left + right for left, right in merges}) < len(merges):
        raise NotExpressible(ENGINE, "merges", "two for one piece", NEAREST)
    for piece in vocabulary:
        for cut in range(1, len(piece)):
            pair = piece[:cut], piece[cut:]
            if pair in ranks or not (pair[0] in vocabulary and pair[1] in vocabulary):
                continue
            if _merged(piece, ranks) == pair:
                raise NotExpressible(ENGINE, "merges", f"none of {pair[0]!r} and {pair[1]!r}", NEAREST)


def _merged(text: str, ranks: Mapping[tuple[str, str], int]) -> tuple[str, ...]:
    """The pieces of a text by BPE."""
    pieces = list(text)
    while True:
        found = [
            (ranks[pair], place)
            for place in range(len(pieces) - 1)
            if (pair := (pieces[place], pieces[place + 1])) in ranks
        ]
        if not found:
            return tuple(pieces)
        _, place = min(found)
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]


def _scores(content: Mapping[str, Any], kind: str) -> dict[str, float]:
    """What a piece is chosen by: the log-probabilities, or the order of the merges."""
    if kind == "unigram":
        return dict(content["model"]["vocab"])
    merged = {"".join(pair): -float(rank) for rank, pair in enumerate(content["model"]["merges"])}
    return {piece: merged.get(piece, LEAST) for piece in content["model"]["vocab"]}


def _pattern(content: Mapping[str, Any]) -> str:
    text = json.dumps(content["pre_tokenizer"])
    return PIECES_AND_DIGITS if json.dumps(PIECES_AND_DIGITS) in text else PIECE_PATTERN


def _normalize(normalizer: Mapping[str, Any] | None) -> Normalize:
    """The normaliser as a function, without the space before a text."""
    steps = [step["type"] for step in (normalizer or {}).get("normalizers", [])]

    def normalized(text: str) -> str:
        for step in steps:
            if step in ("NFC", "NFKC"):
                text = unicodedata.normalize(step, text)
            elif step == "Lowercase":
                text = text.lower()
        return text

    return normalized


def _joined_marks(vocabulary: Iterable[str], letters: tuple[str, ...]) -> list[str]:
    """The apostrophes and hyphens that are in a piece together with letters."""
    found = {
        mark
        for piece in vocabulary
        for mark in INNER
        if mark in piece and any(unicodedata.category(each)[0] in letters for each in piece)
    }
    return sorted(found)


def _spelled(piece: str, marks: list[str], letters: tuple[str, ...]) -> str:
    """A piece without letters, with the characters of marks outside words."""
    if any(unicodedata.category(each)[0] in letters for each in piece):
        return piece
    return "".join(outside(each) if each in marks else each for each in piece)


def _unknown(pieces: Iterable[str], normalize: Normalize, kind: str) -> Iterator[str]:
    """Characters that no piece has, each of which is an unknown piece of its own.

    SentencePiece would join unknown neighbours, as a unigram model does.
    """
    known = {*"".join(pieces), METASPACE, " ", "\0"}
    if kind != "unigram":
        yield from (each for each in assigned() if each not in known and normalize(each) == each)


def _read_from_sentencepiece(content: Mapping[str, Any]) -> bytes:
    """The file of a tokeniser that was read from one."""
    model = content["model"]
    if model["type"] != "Unigram":
        raise NotExpressible(ENGINE, "kind", model["type"], "one that was read from SentencePiece can be")
    pieces = [(str(text), float(score)) for text, score in model["vocab"] if not text.startswith(" ")]
    flags = _flags(content)
    proto = model_proto()
    _add_pieces(proto, [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)])
    for text, score in pieces:
        if text not in SPECIAL_TOKENS:
            is_byte = flags.byte_fallback and re.fullmatch(r"<0x[0-9A-F]{2}>", text)
            _add_pieces(proto, [(text, score, BYTE if is_byte else NORMAL)])
    _set_up(proto, UNIGRAM, base64.b64decode(flags.charsmap), dummy=flags.dummy)
    proto.normalizer_spec.remove_extra_whitespaces = flags.strip
    proto.trainer_spec.treat_whitespace_as_suffix = flags.suffix
    proto.trainer_spec.byte_fallback = flags.byte_fallback
    return proto.SerializeToString()


def _flags(content: Mapping[str, Any]) -> SentencePiece:
    """The flags of the file, found by trying all: exactly one gives this normaliser and decoder."""
    steps = (content["normalizer"] or {}).get("normalizers", [])
    charsmap = next((each["precompiled_charsmap"] for each in steps if each["type"] == "Precompiled"), "")
    for number in range(8):
        dummy, strip, suffix = (bool(number >> place & 1) for place in range(3))
        flags = SentencePiece(
            kind=UNIGRAM,
            pieces=[],
            charsmap=charsmap,
            dummy=dummy,
            strip=strip,
            suffix=suffix,
            byte_fallback=bool(content["model"].get("byte_fallback")),
        )
        decoders = [flags.decoder(unmatched=unmatched) for unmatched in (False, True)]
        if flags.normalizer() == content["normalizer"] and content["decoder"] in decoders:
            return flags
    raise NotExpressible(
        ENGINE, "normalizer", content["normalizer"], "one that was read from SentencePiece can be"
    )


def _add_pieces(model: Any, pieces: Iterable[tuple[str, float, int]]) -> None:
    for text, score, kind in pieces:
        piece = model.pieces.add()
        piece.piece, piece.score, piece.type = text, score, kind


def _set_up(model: Any, kind: int, charsmap: bytes, *, dummy: bool) -> None:
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    trainer.model_type, trainer.vocab_size = kind, len(model.pieces)
    trainer.unk_id, trainer.bos_id, trainer.eos_id, trainer.pad_id = 0, 1, 2, -1
    normalizer.name = "regard"
    normalizer.precompiled_charsmap = charsmap
    normalizer.add_dummy_prefix = dummy
    normalizer.remove_extra_whitespaces = False
    normalizer.escape_whitespaces = True
