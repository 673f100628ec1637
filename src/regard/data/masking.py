"""Token masking: word dropout as regularisation, and masking for masked language models.

Masked tokens become <unk>, which models also meet in use. All random numbers depend on the seed, the epoch
and the index of the example alone, not on earlier examples or on the machine.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int, UInt32

from regard.data.texts import NO_WORD, EncodedText
from regard.errors import RecipeError

# Devlin et al. 2019: 80 % are masked, 10 % replaced by another token, 10 % kept
MASKED_SHARE, REPLACED_SHARE = 0.8, 0.9


def random_bits(seed: int, epoch: int, example: int, count: int) -> UInt32[np.ndarray, " {count}"]:
    """Pseudo-random 32-bit integers for an example."""
    digest = hashlib.shake_128(f"{seed} {epoch} {example}".encode()).digest(4 * count)
    return np.frombuffer(digest, "<u4").astype(np.uint32)


@dataclass(frozen=True, kw_only=True)
class WordDropout:
    """Word dropout (Iyyer et al. 2015): with probability `share`, all pieces of a word become <unk>."""

    share: float
    seed: int
    unk_id: int

    def __call__(self, text: EncodedText, epoch: int, example: int) -> EncodedText:
        dropped = (
            _first_of_word(random_bits(self.seed, epoch, example, len(text.ids)), text.words)
            < self.share * 2**32
        )
        dropped &= text.words != NO_WORD
        return replace(text, ids=np.where(dropped, self.unk_id, text.ids).astype(text.ids.dtype))


@dataclass(frozen=True, kw_only=True)
class MaskingSettings:
    """The `share` of tokens, or with `whole_words` of words, that a masked language model predicts."""

    share: float = 0.15
    whole_words: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise RecipeError(f"share = {self.share} is not between 0 and 1", "0.15 is usual")


@dataclass(frozen=True, kw_only=True)
class Masking:
    """Masked language modelling (Devlin et al. 2019, section 3.1): masks tokens and labels them.

    Of the chosen tokens 80 % become <unk>, 10 % a random token, 10 % stay. At least one token (or word) of a
    text is chosen, and never a special token or <unk>.
    """

    settings: MaskingSettings
    seed: int
    unk_id: int
    first_id: int  # the first id that is not a special token
    vocab_size: int

    def __call__(self, text: EncodedText, epoch: int, example: int) -> EncodedText:
        length = len(text.ids)
        first, second, third = random_bits(self.seed, epoch, example, 3 * length).reshape(3, length)
        if self.settings.whole_words:
            first = _first_of_word(first, text.words)
        chosen = self._chosen(first, text)
        kind = second / 2**32
        other = self.first_id + third.astype(np.int64) % (self.vocab_size - self.first_id)
        masked = np.where(kind < MASKED_SHARE, self.unk_id, np.where(kind < REPLACED_SHARE, other, text.ids))
        places = np.flatnonzero(chosen)
        return replace(
            text,
            ids=np.where(chosen, masked, text.ids).astype(text.ids.dtype),
            labels=text.ids[places].astype(np.int64),
            places=places,
        )

    def _chosen(self, bits: UInt32[np.ndarray, " len"], text: EncodedText) -> Bool[np.ndarray, " len"]:
        possible = (text.words != NO_WORD) & (text.ids != self.unk_id)
        chosen = possible & (bits < self.settings.share * 2**32)
        if not chosen.any() and possible.any():
            chosen = possible & (bits == bits[possible].min())
        return chosen


def _first_of_word(
    bits: UInt32[np.ndarray, " len"], words: Int[np.ndarray, " len"]
) -> UInt32[np.ndarray, " len"]:
    """The random number of each word's first piece, repeated for all pieces of the word."""
    first = np.maximum.accumulate(
        np.where(np.diff(words, prepend=NO_WORD - 1) != 0, np.arange(len(words)), 0)
    )
    return bits[first]
