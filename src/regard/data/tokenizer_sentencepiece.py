"""Converts unigram (Kudo 2018; T5, Marian) and BPE models of sentencepiece to tokenizer.json.

Every flag of such a file that changes the ids of a text is either supported, or the file is refused.
"""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.folder_file import read_file
from regard.data.tokenizer_file import BYTE_SPELLED, SPACES, SPACES_AROUND, TEXT_END, UNMATCHED
from regard.data.tokenizer_limits import MAX_PIECES
from regard.data.tokenizer_pretrained import bpe_model, new_file, pipeline_parts, replacement
from regard.errors import DataError, FolderError, MissingExtra

METASPACE = "▁"
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
TOKEN = re.compile(r">>.*<<|<.*>", re.DOTALL)  # how languages and special tokens are written
NORMAL, USER_DEFINED, BYTE = 1, 4, 6  # the kinds of pieces that texts encode to
UNIGRAM, BPE = 1, 2


class Piece(NamedTuple):
    """A piece of the vocabulary."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True, kw_only=True)
class SentencePiece:
    """The content of a sentencepiece file: the vocabulary and the flags of its normaliser."""

    pieces: Sequence[Piece]
    charsmap: str  # the normalisation table, in base64
    dummy: bool  # adds a space before a text (`add_dummy_prefix`), or after it with `suffix`
    strip: bool  # strips and merges spaces (`remove_extra_whitespaces`)
    suffix: bool  # a space belongs to the word before it (`treat_whitespace_as_suffix`)
    byte_fallback: bool  # an unknown character is encoded as its bytes
    kind: int  # UNIGRAM or BPE

    def normalizer(self) -> dict[str, Any]:
        """The `normalizer` of a tokenizer.json."""
        charsmap = {"type": "Precompiled", "precompiled_charsmap": self.charsmap}
        steps = [charsmap] if self.charsmap else []
        if self.strip:
            steps += [replacement({"Regex": SPACES_AROUND}, ""), replacement({"Regex": SPACES}, " ")]
        if self.dummy and self.suffix:
            steps.append(replacement({"Regex": TEXT_END}, METASPACE))
        elif self.dummy:
            steps.append({"type": "Prepend", "prepend": METASPACE})
        return pipeline_parts("normalizers", [*steps, replacement({"String": " "}, METASPACE)])

    def pre_tokenizer(self) -> dict[str, Any] | None:
        """The `pre_tokenizer`, which splits a text where no piece crosses, and where it spells a byte."""
        texts = [piece.text for piece in self.pieces if piece.kind in (NORMAL, USER_DEFINED)]
        inner = [text[:-1] if self.suffix else text[1:] for text in texts]
        behaviour = "MergedWithPrevious" if self.suffix else "MergedWithNext"
        steps: list[dict[str, Any]] = []
        if not any(METASPACE in text for text in inner):
            steps.append(_split({"String": METASPACE}, behaviour))
        if self.byte_fallback:
            steps.append(_split({"Regex": BYTE_SPELLED}, "MergedWithNext"))
        return pipeline_parts("pretokenizers", steps) if steps else None

    def decoder(self, *, unmatched: bool = False) -> dict[str, Any]:
        """The `decoder` of a tokenizer.json; `unmatched`: it has pieces that no text matches."""
        steps = [replacement({"String": UNMATCHED}, "")] if unmatched else []
        steps.append(replacement({"String": METASPACE}, " "))
        steps += [{"type": "ByteFallback"}] if self.byte_fallback else []
        sides = {"start": 0, "stop": 1} if self.suffix else {"start": 1, "stop": 0}
        steps.append({"type": "Fuse"})
        if self.dummy:
            steps.append({"type": "Strip", "content": " ", **sides})
        return pipeline_parts("decoders", steps)


def from_sentencepiece(
    path: Path,
    vocabulary: Mapping[str, int] | None = None,
    more: Sequence[str] = (),
    *,
    restricted: bool = False,
) -> dict[str, Any]:
    """Converts the sentencepiece file at `path` to a tokenizer.json.

    Marian's ids come from a separate `vocabulary`; pieces that it lacks are unknown. Of its pieces that the
    file lacks, texts encode to those of unknown characters alone. If `restricted`, no text encodes to pieces
    of several characters that the vocabulary lacks (sentencepiece's SetVocabulary). `more` pieces, such as
    special tokens, are appended.

    Raises:
        MissingExtra: the sentencepiece library is not installed.
        FolderError: the file is damaged, or has a flag that is not supported.
    """
    found = _read(path)
    if found.kind == BPE:
        lacks = restricted and any(
            piece.kind == NORMAL and len(piece.text) > 1 and piece.text not in (vocabulary or {})
            for piece in found.pieces
        )
        if lacks or any(piece.kind == USER_DEFINED for piece in found.pieces):
            what = "of which the vocabulary lacks pieces" if lacks else "with user-defined pieces"
            raise FolderError(f"{path}: a BPE model {what} is not supported", "a unigram model is")
        model = _bpe(found, vocabulary, more)
        return new_file(
            normalizer=found.normalizer(),
            pre_tokenizer=found.pre_tokenizer(),
            model=model,
            decoder=found.decoder(unmatched=_any_unmatched(model["vocab"])),
        )
    pieces = _scored(found.pieces)
    lowest = min((piece.score for piece in pieces if piece.kind == NORMAL), default=0.0)
    if vocabulary is None:
        scored = [(_text_in_file(piece), piece.score) for piece in pieces] + [
            (piece, lowest) for piece in more
        ]
        unk = next((number for number, (piece, _) in enumerate(scored) if piece == "<unk>"), 0)
    else:
        scored = _by_vocabulary(found, pieces, vocabulary, lowest, restricted)
        unk = vocabulary["<unk>"]
    if found.byte_fallback and not {f"<0x{byte:02X}>" for byte in range(256)} <= {text for text, _ in scored}:
        raise FolderError(f"{path}: byte_fallback without a piece for each byte", "copy the folder again")
    return new_file(
        normalizer=found.normalizer(),
        pre_tokenizer=found.pre_tokenizer(),
        model={
            "type": "Unigram",
            "unk_id": unk,
            "vocab": [list(pair) for pair in scored],
            "byte_fallback": found.byte_fallback,
        },
        decoder=found.decoder(unmatched=_any_unmatched(text for text, _ in scored)),
    )


def _bpe(found: SentencePiece, vocabulary: Mapping[str, int] | None, more: Sequence[str]) -> dict[str, Any]:
    """The model of a tokenizer.json for BPE: all pairs of pieces that make a piece, best piece first."""
    matched = [piece for piece in found.pieces if piece.kind == NORMAL]
    if vocabulary is None:
        texts = [*(_text_in_file(piece) for piece in found.pieces), *more]
        numbers = {text: number for number, text in enumerate(texts)}
    else:
        known = {piece.text for piece in found.pieces if piece.kind in (NORMAL, BYTE)} | {*SPECIAL_TOKENS}
        known |= {piece for piece in _looked_up(found, vocabulary) if len(piece) == 1}  # others need merges
        numbers = {
            piece if piece in known else f"{UNMATCHED}{piece}": number for piece, number in vocabulary.items()
        }
    following = max(numbers.values()) + 1
    for piece in matched:  # those that the vocabulary lacks
        if piece.text not in numbers:
            numbers[piece.text], following = following, following + 1
    own = {piece.text for piece in matched}
    merges = [
        [piece.text[:cut], piece.text[cut:]]
        for piece in sorted(matched, key=lambda piece: -piece.score)
        for cut in range(1, len(piece.text))
        if piece.text[:cut] in own and piece.text[cut:] in own
    ]
    return bpe_model(numbers, merges, "<unk>", fuse_unk=True, byte_fallback=found.byte_fallback)


def _scored(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with the scores that sentencepiece uses: user-defined pieces get a bonus for their length.

    Bytes get the lowest score, so that they do not lower the score of unknown characters.
    """
    scores = [piece.score for piece in pieces if piece.kind == NORMAL]
    lowest, highest = min(scores, default=0.0), max(scores, default=0.0)
    changed = {
        USER_DEFINED: lambda piece: max(lowest, len(piece.text.encode()) * highest - 0.1),
        BYTE: lambda piece: lowest,
    }
    return [
        piece._replace(score=changed[piece.kind](piece)) if piece.kind in changed else piece
        for piece in pieces
    ]


def _text_in_file(piece: Piece) -> str:
    """The piece's text, changed for a piece that texts do not encode to, so that none matches it."""
    known = piece.kind in (NORMAL, USER_DEFINED, BYTE) or piece.text in SPECIAL_TOKENS
    return piece.text if known else f"{UNMATCHED}{piece.text}"


def _any_unmatched(texts: Iterable[str]) -> bool:
    return any(text.startswith(UNMATCHED) for text in texts)


def _looked_up(found: SentencePiece, vocabulary: Iterable[str]) -> set[str]:
    """The pieces of the vocabulary of which the file has no character.

    sentencepiece gives a run of unknown characters as it is, and toolkits look it up in their vocabulary.
    """
    if found.byte_fallback:
        return set()
    known = {piece.text for piece in found.pieces if piece.kind in (NORMAL, USER_DEFINED)}
    return {piece for piece in vocabulary if known.isdisjoint(piece) and not TOKEN.fullmatch(piece)}


def _by_vocabulary(
    found: SentencePiece,
    pieces: Sequence[Piece],
    vocabulary: Mapping[str, int],
    lowest: float,
    restricted: bool,
) -> list[tuple[str, float]]:
    """The pieces in the order of their ids, followed by pieces that the model does not have."""
    if sorted(vocabulary.values()) != list(range(len(vocabulary))) or "<unk>" not in vocabulary:
        raise DataError("vocab.json has gaps, or no <unk>", "is it the file of another tokeniser?")
    scores = {piece.text: piece.score for piece in pieces if piece.kind in (NORMAL, USER_DEFINED, BYTE)}
    ordered = sorted(vocabulary, key=lambda piece: vocabulary[piece])
    matched = {*scores, *SPECIAL_TOKENS, *_looked_up(found, vocabulary)}
    known = [
        (piece if piece in matched else f"{UNMATCHED}{piece}", scores.get(piece, lowest)) for piece in ordered
    ]
    return known + [
        (f"{UNMATCHED}{piece}" if restricted and len(piece) > 1 else piece, score)
        for piece, score in scores.items()
        if piece not in vocabulary
    ]


def _read(path: Path) -> SentencePiece:
    try:
        import sentencepiece  # noqa: F401
        from sentencepiece import sentencepiece_model_pb2
    except ImportError as error:
        raise MissingExtra("sentencepiece", "sentencepiece", f"reading {path.name}") from error
    model = sentencepiece_model_pb2.ModelProto()  # pyright: ignore[reportAttributeAccessIssue] (made at import)
    content = read_file(path)
    try:
        model.ParseFromString(content)
    except Exception as error:  # google's DecodeError, whose package is not ours to import
        raise FolderError(f"{path} is not a sentencepiece file", "copy the folder again") from error
    training, reading = model.trainer_spec, model.normalizer_spec
    if training.model_type not in (UNIGRAM, BPE) or not 0 < len(model.pieces) < MAX_PIECES:
        raise FolderError(f"{path} has neither unigram pieces nor BPE", "words and characters are not read")
    if not reading.escape_whitespaces:
        raise FolderError(f"{path}: escape_whitespaces = false is not supported", "use a file with true")
    if model.denormalizer_spec.precompiled_charsmap:
        raise FolderError(f"{path}: a denormalizer_spec is not supported", "use a file without one")
    return SentencePiece(
        pieces=[Piece(each.piece, float(each.score), each.type) for each in model.pieces],
        charsmap=base64.b64encode(reading.precompiled_charsmap).decode("ascii"),
        dummy=reading.add_dummy_prefix,
        strip=reading.remove_extra_whitespaces,
        suffix=training.treat_whitespace_as_suffix,
        byte_fallback=training.byte_fallback,
        kind=training.model_type,
    )


def _split(pattern: Mapping[str, str], behaviour: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": dict(pattern), "behavior": behaviour, "invert": False}
