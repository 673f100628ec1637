"""A part of a tokenised corpus of pairs: their ids as arrays in one safetensors file, for any program.

For each segmentation N of the sources, `copy-N.source.ids` has the ids of all pairs one after another, and
`copy-N.source.starts` where each pair begins, and the end; `copy-N.target.*` the same of the targets. `lines`
has the line of each pair, counted within the part of the input.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from regard.data.shards import SIDES, Copy, Segmenter, id_types, special_tokens, tokenised
from regard.data.tokenizer import TokenizerPair
from regard.errors import DataError

TOO_MANY = "too_many_tokens"  # why a pair is left out
MOST_TOKENS = 100_000_000  # of a side of a part, all of which is in memory
PairIds = tuple[list[int], list[int]]  # of a source and its target


def tokenised_pairs(
    segmenters: Sequence[tuple[Segmenter, Segmenter]], pairs: Sequence[tuple[str, str]], max_tokens: int
) -> list[list[PairIds] | str]:
    """The ids of each pair in each copy, without bos and eos.

    TOO_MANY stands for a pair with a side of more than `max_tokens` tokens, eos included.
    """
    texts = [source for source, _ in pairs], [target for _, target in pairs]
    copies, kept = tokenised(segmenters, texts, max_tokens)
    found: list[list[PairIds] | str] = [TOO_MANY] * len(pairs)
    for place in kept:
        found[place] = [(sources[place], targets[place]) for sources, targets in copies]
    return found


def refuse_large_part(tokens: int) -> None:
    """Raise a DataError if a part has too many tokens: training holds several parts in memory."""
    if tokens > MOST_TOKENS:
        raise DataError(
            f"a part of the input has more than {MOST_TOKENS:,} tokens, which is too much for one part",
            "a compressed file that is one member is one part: cut it, as docs/distributed.md says; or give"
            " smaller --part-megabytes",
        )


class PairWriter:
    """Collects the pairs of a part in memory, and counts them."""

    def __init__(self, tokenizers: TokenizerPair, copies: int) -> None:
        self._special, self._types = special_tokens(tokenizers), id_types(tokenizers)
        self._ids: list[list[list[np.ndarray]]] = [[[] for _ in SIDES] for _ in range(copies)]
        self._lengths: list[list[list[int]]] = [[[] for _ in SIDES] for _ in range(copies)]
        self._lines: list[int] = []
        self._tokens = [0, 0]  # of all copies
        self.skipped: Counter[str] = Counter()

    def add(self, pairs: Sequence[list[PairIds]], lines: Sequence[int]) -> None:
        """Appends tokenised pairs; `lines`: the number of the line of each.

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
        """The pairs, the tokens of copy 0, the longest sequences of any copy; what was left out, by reason.

        Special tokens count.
        """
        counts = {"pairs": len(self._lines)}
        for side, name in enumerate(SIDES):
            counts[f"{name}_tokens"] = sum(self._lengths[0][side])
            lengths = itertools.chain.from_iterable(each[side] for each in self._lengths)
            counts[f"longest_{name}"] = max(lengths, default=0)
        return counts | {f"skipped_{reason}": number for reason, number in sorted(self.skipped.items())}

    def to_bytes(self) -> bytes:
        """The part as a safetensors file."""
        arrays = {"lines": np.array(self._lines, np.uint32)}
        for copy, (ids, lengths) in enumerate(zip(self._ids, self._lengths, strict=True)):
            for side, name in enumerate(SIDES):
                flat = np.concatenate([*ids[side], np.empty(0, self._types[side])])
                arrays[f"copy-{copy}.{name}.ids"] = flat
                arrays[f"copy-{copy}.{name}.starts"] = np.cumsum([0, *lengths[side]], dtype=np.uint32)
        return save(arrays)


class PairPart:
    """The pairs of a part that was read, numbered from 0."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raises KeyError if an array is missing."""
        count = max(1, sum(name.endswith("source.ids") for name in arrays))
        self._copies = [
            Copy(
                [arrays[f"copy-{number}.{side}.ids"] for side in SIDES],
                [arrays[f"copy-{number}.{side}.starts"].astype(np.int64) for side in SIDES],
            )
            for number in range(count)
        ]
        self.lines = arrays["lines"].astype(np.int64)

    @classmethod
    def of(cls, content: bytes, name: str) -> "PairPart":
        """The part that these bytes of a file hold; `name` is the file's for messages.

        Raises:
            DataError: it is not a part of a tokenised corpus of pairs.
        """
        try:
            return cls(load(content))
        except (SafetensorError, KeyError) as error:
            raise DataError(
                f"{name} is not a part of a tokenised corpus of pairs ({error})",
                "`regard jobs verify` lists damaged parts",
            ) from error

    def __len__(self) -> int:
        return len(self.lines)

    def copy(self, epoch: int) -> Copy:
        """The segmentation for an epoch."""
        return self._copies[epoch % len(self._copies)]
