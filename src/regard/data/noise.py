"""Noise for training: sampled segmentations, so that a model sees a word in more than one spelling."""

import functools
import hashlib
import itertools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.tokenizer import Tokenizer
from regard.errors import RecipeError


def mixed(*numbers: int) -> int:
    """One seed from several numbers, as far from its neighbours' as chance would have it."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:7], "big")


class SampledTokenizer:
    """BPE with dropout over the vocabulary of `tokenizer`, as a function of the text and the seed.

    The tokenizers library cannot seed its own draw, so its merges are applied here. An occurrence of a
    word gets one of `VARIANTS` draws, which keeps the cost to that of the vocabulary. A word of more than
    `LONGEST` characters, for which the draws grow with their square, is segmented without dropout.
    """

    VARIANTS = 16
    LONGEST = 100
    REMEMBERED = 100_000  # words times variants; some 30 MiB

    def __init__(self, tokenizer: Tokenizer, dropout: float, seed: int) -> None:
        merges = tokenizer.merges()
        if not merges:
            raise RecipeError(
                "this kind of tokeniser has no merges to drop", "set dropout = 0 or kind = 'bpe'"
            )
        self._tokenizer = tokenizer
        self._vocabulary = tokenizer.vocabulary()
        ranks = {merge: rank for rank, merge in enumerate(merges)}
        self._segment = BpeDropout(ranks=ranks, dropout=dropout, seed=seed)
        self._ids = functools.lru_cache(self.REMEMBERED)(self._word_ids)

    def encode(self, text: str) -> list[int]:
        return [number for word in self.encode_words(text) for number in word]

    def encode_words(self, text: str) -> list[list[int]]:
        """The ids of each word by themselves."""
        words = self._tokenizer.words(text)
        start = zlib.crc32(text.encode())
        return [self._ids(word, (start + 7 * place) % self.VARIANTS) for place, word in enumerate(words)]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [[*self._tokenizer.prefix, *self.encode(text)] for text in texts]

    def _word_ids(self, word: str, variant: int) -> list[int]:
        if len(word) > self.LONGEST:
            return self._tokenizer.word_ids(word)
        unknown = self._tokenizer.unk_id
        return [self._vocabulary.get(piece, unknown) for piece in self._segment(word, variant)]


@dataclass(frozen=True, kw_only=True)
class BpeDropout:
    """BPE-dropout (Provilkov et al. 2020): every merge is left out with probability `dropout`, each time.

    `ranks` gives each merge its place in the order of merging. The random numbers are a hash of the
    seed, the word and `variant`, so that a segmentation depends on these and on nothing else: not on
    what was read before, not on the machine.
    """

    ranks: Mapping[tuple[str, str], int]
    dropout: float
    seed: int

    def __call__(self, word: str, variant: int = 0) -> list[str]:
        """The pieces of `word`, of which there is another draw for each `variant`."""
        pieces = list(word)
        never = len(self.ranks)
        ranks = [self.ranks.get(pair, never) for pair in itertools.pairwise(pieces)]
        draw = hashlib.shake_128(f"{self.seed} {variant} {word}".encode())
        numbers = np.frombuffer(draw.digest(len(pieces) * len(ranks)), "<u2").tolist()
        threshold = self.dropout * 65536
        at = 0
        while ranks:
            best, best_rank = -1, never
            for place, rank in enumerate(ranks, start=at):
                if rank < best_rank and numbers[place] >= threshold:
                    best, best_rank = place - at, rank
            if best < 0:
                break
            at += len(ranks)
            pieces[best : best + 2] = [pieces[best] + pieces[best + 1]]
            del ranks[best]
            for left in (best - 1, best):
                if 0 <= left < len(ranks):
                    ranks[left] = self.ranks.get((pieces[left], pieces[left + 1]), never)
        return pieces
