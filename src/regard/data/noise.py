"""Subword regularisation: BPE-dropout, which segments words in random ways during training."""

import functools
import hashlib
import itertools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.tokenizer import Tokenizer
from regard.errors import RecipeError


def derive_seed(*numbers: int) -> int:
    """Hashes several numbers into one seed of 56 bits."""
    return int.from_bytes(hashlib.sha256(repr(numbers).encode()).digest()[:7], "big")


class SampledTokenizer:
    """BPE-dropout with the vocabulary of `tokenizer`; the result depends on the text and the seed alone.

    The tokenizers library cannot seed its dropout, so the merges are applied here. An occurrence of a word
    gets one of `VARIANTS` segmentations, which are cached. A word of more than `LONGEST` characters is
    segmented without dropout, because the cost grows with the square of its length.
    """

    VARIANTS = 16
    LONGEST = 100
    CACHED = 100_000  # cached segmentations, about 30 MiB

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
        self._ids = functools.lru_cache(self.CACHED)(self._word_ids)

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return [number for word in self.encode_words(text) for number in word]

    def encode_words(self, text: str) -> list[list[int]]:
        """The ids of each word of a text."""
        words = self._tokenizer.words(text)
        start = zlib.crc32(text.encode())
        return [self._ids(word, (start + 7 * place) % self.VARIANTS) for place, word in enumerate(words)]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts, with the tokeniser's prefix."""
        return [[*self._tokenizer.prefix, *self.encode(text)] for text in texts]

    def _word_ids(self, word: str, variant: int) -> list[int]:
        if len(word) > self.LONGEST or word in self._tokenizer.added_tokens:
            return self._tokenizer.word_ids(word)
        unknown = self._tokenizer.unk_id
        return [self._vocabulary.get(piece, unknown) for piece in self._segment(word, variant)]


@dataclass(frozen=True, kw_only=True)
class BpeDropout:
    """BPE-dropout (Provilkov et al. 2020): at each step every merge is skipped with probability `dropout`.

    `ranks` gives the position of each merge in the order of merging. The random numbers are a hash of the
    seed, the word and `variant`, so a segmentation depends on these alone.
    """

    ranks: Mapping[tuple[str, str], int]
    dropout: float
    seed: int

    def __call__(self, word: str, variant: int = 0) -> list[str]:
        """The pieces of `word`; each `variant` is another sampled segmentation."""
        pieces = list(word)
        never = len(self.ranks)
        ranks = [self.ranks.get(pair, never) for pair in itertools.pairwise(pieces)]
        random_bits = hashlib.shake_128(f"{self.seed} {variant} {word}".encode())
        numbers = np.frombuffer(random_bits.digest(len(pieces) * len(ranks)), "<u2").tolist()
        threshold = self.dropout * 65536
        offset = 0
        while ranks:
            best, best_rank = -1, never
            for place, rank in enumerate(ranks, start=offset):
                if rank < best_rank and numbers[place] >= threshold:
                    best, best_rank = place - offset, rank
            if best < 0:
                break
            offset += len(ranks)
            pieces[best : best + 2] = [pieces[best] + pieces[best + 1]]
            del ranks[best]
            for left in (best - 1, best):
                if 0 <= left < len(ranks):
                    ranks[left] = self.ranks.get((pieces[left], pieces[left + 1]), never)
        return pieces
