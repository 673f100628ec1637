"""A run: one text's way through a model, what it read and what it answered; every view starts here."""

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
from regard.verbs.views.request import Request
from regard.weights.model_folder import LoadedModel


@dataclass(frozen=True, kw_only=True)
class TokenSequence:
    """The tokens of a sequence, by which the rows and columns of an attention are named."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    special: tuple[bool, ...]  # marks, which are no part of the text

    def to_dict(self) -> dict[str, Any]:
        return {"tokens": list(self.tokens), "ids": list(self.ids), "special": list(self.special)}


@dataclass(frozen=True, kw_only=True)
class AnswerToken:
    """A token of an answer, as it comes."""

    token: str
    id: int
    log_prob: float  # nats

    def to_dict(self) -> dict[str, Any]:
        return {"token": self.token, "id": self.id, "log_prob": self.log_prob}


@dataclass(frozen=True, kw_only=True)
class SearchRecord:
    """How an answer was searched for, so that the search can be watched once more."""

    search: Search
    decode: Callable[[Search], Sequence[Hypothesis]]


@dataclass(frozen=True, kw_only=True)
class InspectedImage:
    """An image that was read, and how it was cut: patches in a grid, row by row, behind `before` others."""

    pixels: UInt8[np.ndarray, "height width channels"]
    patch_size: int
    before: int

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        height, width, _ = self.pixels.shape
        return height // self.patch_size, width // self.patch_size


@dataclass(frozen=True, kw_only=True)
class InspectedRun:
    """What a model read and answered, and the forced pass in which it does so again, to be watched."""

    loaded: LoadedModel
    request: Request
    forced: ForcedPass
    sequences: dict[SequenceName, TokenSequence]
    tokenizer: Tokenizer | None  # of what is written, or of the text; None of an image
    answer: dict[str, Any] | None  # as the summary of a look has it
    searched: SearchRecord | None = field(default=None, repr=False)
    image: InspectedImage | None = field(default=None, repr=False)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """How ids of what is written, or of the text, are shown."""
        assert self.tokenizer is not None
        return pieces(self.tokenizer, ids)

    def tokenizer_of(self, name: SequenceName) -> Tokenizer:
        """What the ids of a sequence are read by: a source may have another vocabulary."""
        assert self.tokenizer is not None
        return self.loaded.tokenizers.source if name == "source" else self.tokenizer


def token_sequence(tokenizer: Tokenizer, ids: Sequence[int]) -> TokenSequence:
    """Ids with the pieces of a vocabulary."""
    marks = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, *tokenizer.prefix}
    return TokenSequence(
        tokens=tuple(pieces(tokenizer, ids)), ids=tuple(ids), special=tuple(each in marks for each in ids)
    )


def as_prefix(text: str, tokenizer: Tokenizer) -> str:
    """A text that goes on: a space at its end belongs to the word after it, where the tokeniser thinks so."""
    spaced = len(tokenizer.words("x x")) == 2
    return text.rstrip() if spaced else text
