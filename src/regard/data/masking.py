"""Tokens that are hidden: word dropout against overfitting, masks for masked language models.

What is hidden becomes <unk>, which is what a model must make do with in use too. Every draw is a function
of the seed, the epoch and the number of the example, and of nothing else: not of what was read before, not
of the machine.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int, UInt32

from regard.data.texts import NO_WORD, EncodedText
from regard.errors import RecipeError

HIDDEN, OTHER = 0.8, 0.9  # Devlin et al. 2019: 80 % are hidden, 10 % become another token, 10 % stay


def draws(seed: int, epoch: int, example: int, count: int) -> UInt32[np.ndarray, "{count}"]:
    """So many numbers, each of 32 random bits."""
    digest = hashlib.shake_128(f"{seed} {epoch} {example}".encode()).digest(4 * count)
    return np.frombuffer(digest, "<u4").astype(np.uint32)


@dataclass(frozen=True, kw_only=True)
class WordDropout:
    """Each word becomes unknown with probability `share`, all its pieces together (Iyyer et al. 2015)."""

    share: float
    seed: int
    unk_id: int

    def __call__(self, text: EncodedText, epoch: int, example: int) -> EncodedText:
        hidden = _by_word(draws(self.seed, epoch, example, len(text.ids)), text.words) < self.share * 2**32
        hidden &= text.words != NO_WORD
        return replace(text, ids=np.where(hidden, self.unk_id, text.ids).astype(text.ids.dtype))


@dataclass(frozen=True, kw_only=True)
class MaskingSettings:
    """What a masked language model is to guess: a `share` of the tokens or, with `whole_words`, of words."""

    share: float = 0.15
    whole_words: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise RecipeError(f"share = {self.share} hides nothing or all", "0.15 is usual")


@dataclass(frozen=True, kw_only=True)
class Masking:
    """Hides tokens, and labels their places with what stood there (Devlin et al. 2019, section 3.1).

    Of the chosen tokens 80 % become <unk>, 10 % any token, 10 % stay as they are, each for itself. At least
    one token (or word) of a text is chosen; marks and unknown tokens never are.
    """

    settings: MaskingSettings
    seed: int
    unk_id: int
    first_id: int  # of the tokens that are no marks
    vocab_size: int

    def __call__(self, text: EncodedText, epoch: int, example: int) -> EncodedText:
        length = len(text.ids)
        first, second, third = draws(self.seed, epoch, example, 3 * length).reshape(3, length)
        if self.settings.whole_words:
            first = _by_word(first, text.words)
        chosen = self._chosen(first, text)
        kind = second / 2**32
        other = self.first_id + third.astype(np.int64) % (self.vocab_size - self.first_id)
        seen = np.where(kind < HIDDEN, self.unk_id, np.where(kind < OTHER, other, text.ids))
        places = np.flatnonzero(chosen)
        return replace(
            text,
            ids=np.where(chosen, seen, text.ids).astype(text.ids.dtype),
            labels=text.ids[places].astype(np.int64),
            places=places,
        )

    def _chosen(self, draw: UInt32[np.ndarray, " len"], text: EncodedText) -> Bool[np.ndarray, " len"]:
        possible = (text.words != NO_WORD) & (text.ids != self.unk_id)
        chosen = possible & (draw < self.settings.share * 2**32)
        if not chosen.any() and possible.any():
            chosen = possible & (draw == draw[possible].min())
        return chosen


def _by_word(draw: UInt32[np.ndarray, " len"], words: Int[np.ndarray, " len"]) -> UInt32[np.ndarray, " len"]:
    """The draw of a word's first piece for all of its pieces."""
    first = np.maximum.accumulate(
        np.where(np.diff(words, prepend=NO_WORD - 1) != 0, np.arange(len(words)), 0)
    )
    return draw[first]
