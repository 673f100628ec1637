"""The run of one text through a model: sequences, answer, and the forced pass for resources."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import UInt8

from regard.data.tokenizer import Tokenizer
from regard.decoding.base_search import Search
from regard.decoding.hypothesis import Hypothesis
from regard.inspection.passes import ForcedPass, SequenceName
from regard.verbs.views.pieces import pieces
from regard.verbs.views.request import LookRequest
from regard.weights.model_folder import LoadedModel


@dataclass(frozen=True, kw_only=True)
class TokenSequence:
    """The tokens of a sequence: labels for the rows and columns of an attention."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    special: tuple[bool, ...]  # True for special tokens, which are not part of the text

    def to_dict(self) -> dict[str, Any]:
        return {"tokens": list(self.tokens), "ids": list(self.ids), "special": list(self.special)}


@dataclass(frozen=True, kw_only=True)
class AnswerToken:
    """A token of an answer while it is generated."""

    token: str
    id: int
    log_prob: float  # nats

    def to_dict(self) -> dict[str, Any]:
        return {"token": self.token, "id": self.id, "log_prob": self.log_prob}


@dataclass(frozen=True, kw_only=True)
class SearchRecord:
    """The search that found an answer, so that it can be repeated and recorded."""

    search: Search
    decode: Callable[[Search], Sequence[Hypothesis]]


@dataclass(frozen=True, kw_only=True)
class InspectedImage:
    """An image and its patches: a grid, row by row, after `before` other positions (the class token)."""

    pixels: UInt8[np.ndarray, "height width channels"]
    patch_size: int
    before: int

    @property
    def grid(self) -> tuple[int, int]:
        """The numbers of rows and columns of patches."""
        height, width, _ = self.pixels.shape
        return height // self.patch_size, width // self.patch_size


@dataclass(frozen=True, kw_only=True)
class InspectedRun:
    """What a model read and answered, and the forced pass that repeats it for recording."""

    loaded: LoadedModel
    request: LookRequest
    forced: ForcedPass
    sequences: dict[SequenceName, TokenSequence]
    tokenizer: Tokenizer | None  # of the written tokens or the text; None for an image
    answer: dict[str, Any] | None  # as the summary of a look has it
    search_record: SearchRecord | None = field(default=None, repr=False)
    image: InspectedImage | None = field(default=None, repr=False)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The readable pieces of ids of the written tokens or the text."""
        assert self.tokenizer is not None
        return pieces(self.tokenizer, ids)

    def tokenizer_of(self, name: SequenceName) -> Tokenizer:
        """The tokeniser of a sequence: a source may have its own vocabulary."""
        assert self.tokenizer is not None
        return self.loaded.tokenizers.source if name == "source" else self.tokenizer


def token_sequence(tokenizer: Tokenizer, ids: Sequence[int]) -> TokenSequence:
    """The sequence of these ids, with their pieces and special tokens marked."""
    special = special_ids(tokenizer)
    return TokenSequence(
        tokens=tuple(pieces(tokenizer, ids)),
        ids=tuple(ids),
        special=tuple(each in special for each in ids),
    )


def special_ids(tokenizer: Tokenizer) -> set[int]:
    """The ids that are shown as special tokens."""
    return {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, *tokenizer.prefix}


def as_prefix(text: str, tokenizer: Tokenizer) -> str:
    """A text to be continued, without a final space if the tokeniser puts spaces before words."""
    splits_at_spaces = len(tokenizer.words("x x")) == 2
    return text.rstrip() if splits_at_spaces else text
