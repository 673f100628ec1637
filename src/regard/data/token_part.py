"""A part of a tokenised corpus: the ids of its pairs as arrays in one safetensors file.

`copy-N.source.ids` and `copy-N.target.ids` have the ids of all pairs in a row, `.starts` where each pair
begins, and the end; `lines` the number of its line in the part of the input. So another program can read it.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from regard.data.shards import SIDES, Copy, Segmenter, id_types, special_tokens, tokenised
from regard.data.tokenizer import TokenizerPair
from regard.errors import DataError

TOO_MANY = "too_many_tokens"  # why a pair is left out
MOST_TOKENS = 100_000_000  # of a side of a part, all of which is in memory
Pairs = Sequence[tuple[str, str]]
Sequences = tuple[list[int], list[int]]  # the ids of a source and a target


class PartTokenizer:
    """Tokenises pairs; a pair that has too many tokens is TOO_MANY."""

    def __init__(
        self,
        tokenizers: TokenizerPair,
        segmenters: Sequence[tuple[Segmenter, Segmenter]],
        max_tokens: int,
    ) -> None:
        self.tokenizers, self._segmenters, self._max_tokens = tokenizers, segmenters, max_tokens

    def __call__(self, pairs: Pairs) -> list[list[Sequences] | str]:
        """For each pair its sequences in each copy."""
        sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        copies, kept = tokenised(self._segmenters, (sources, targets), self._max_tokens)
        found: list[list[Sequences] | str] = [TOO_MANY] * len(pairs)
        for place in kept:
            found[place] = [(source[place], target[place]) for source, target in copies]
        return found


def refuse_large_part(tokens: int) -> None:
    """Raise a DataError if a part has too many tokens for the memory of a process that reads some of them."""
    if tokens > MOST_TOKENS:
        raise DataError(
            f"a part of the input has more than {MOST_TOKENS:,} tokens, which is too much for one part",
            "a compressed file that is one member is one part: cut it, as docs/distributed.md says; or give"
            " smaller --part-megabytes",
        )


class PartWriter:
    """Collects the pairs of a part, and counts them."""

    def __init__(self, tokenizers: TokenizerPair, copies: int) -> None:
        self._special, self._types = special_tokens(tokenizers), id_types(tokenizers)
        self._ids: list[list[list[np.ndarray]]] = [[[] for _ in SIDES] for _ in range(copies)]
        self._lengths: list[list[list[int]]] = [[[] for _ in SIDES] for _ in range(copies)]
        self._lines: list[int] = []
        self._tokens = [0, 0]  # of all copies
        self.skipped: Counter[str] = Counter()

    def add(self, pairs: Sequence[list[Sequences]], lines: Sequence[int]) -> None:
        """Pairs with the numbers of their lines.

        Raises:
            DataError: the part becomes too large.
        """
        for copy, (ids, lengths) in enumerate(zip(self._ids, self._lengths, strict=True)):
            for side, (before, after) in enumerate(self._special):
                whole = [[*before, *pair[copy][side], *after] for pair in pairs]
                lengths[side] += map(len, whole)
                flat = np.fromiter(itertools.chain.from_iterable(whole), self._types[side])
                ids[side].append(flat)
                self._tokens[side] += len(flat)
                refuse_large_part(self._tokens[side])
        self._lines += lines

    def counts(self) -> dict[str, int]:
        """Pairs, tokens, longest sides, special tokens included; and what was left out, by reason."""
        counts = {"pairs": len(self._lines)}
        for side, name in enumerate(SIDES):
            counts[f"{name}_tokens"] = sum(self._lengths[0][side])
            counts[f"longest_{name}"] = max((max(each[side], default=0) for each in self._lengths), default=0)
        return counts | {f"skipped_{reason}": number for reason, number in sorted(self.skipped.items())}

    def to_bytes(self) -> bytes:
        """The file."""
        arrays = {"lines": np.array(self._lines, np.uint32)}
        for copy, (ids, lengths) in enumerate(zip(self._ids, self._lengths, strict=True)):
            for side, name in enumerate(SIDES):
                flat = np.concatenate([*ids[side], np.empty(0, self._types[side])])
                arrays[f"copy-{copy}.{name}.ids"] = flat
                arrays[f"copy-{copy}.{name}.starts"] = np.cumsum([0, *lengths[side]], dtype=np.uint32)
        return save(arrays)


class TokenPart:
    """A part that was read; its pairs are numbered from 0."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        count = sum(name.endswith("source.ids") for name in arrays)
        self._copies = [_copy(arrays, number) for number in range(count)]
        self.lines = arrays["lines"].astype(np.int64)

    @classmethod
    def of(cls, content: bytes, name: str) -> "TokenPart":
        """Reads the bytes of a file of this name.

        Raises:
            DataError: it is not a part of a tokenised corpus.
        """
        try:
            return cls(load(content))
        except (SafetensorError, KeyError, IndexError) as error:
            raise DataError(
                f"{name} is not a part of a tokenised corpus ({error})",
                "`regard jobs verify` lists damaged parts",
            ) from error

    def __len__(self) -> int:
        return len(self.lines)

    def copy(self, epoch: int) -> Copy:
        """The segmentation for an epoch."""
        return self._copies[epoch % len(self._copies)]


def _copy(arrays: Mapping[str, Any], number: int) -> Copy:
    ids = [arrays[f"copy-{number}.{side}.ids"] for side in SIDES]
    return Copy(ids, [arrays[f"copy-{number}.{side}.starts"].astype(np.int64) for side in SIDES])
