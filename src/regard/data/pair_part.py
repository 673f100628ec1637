"""A part of a tokenised corpus of pairs: the names of its arrays, writing and reading.

For each segmentation N of the sources, `copy-N.source.ids` has the ids of all pairs one after another, and
`copy-N.source.starts` where each pair begins, and the end; `copy-N.target.*` the same of the targets. `lines`
has the line of each pair, counted within the part of the input.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from regard.data.corpus_part import CorpusPart, part_bytes, refuse_large_part
from regard.data.shards import SIDES, Copy, Segmenter, id_types, special_tokens, tokenised
from regard.data.tokenizer import TokenizerPair

TOO_MANY = "too_many_tokens"  # why a pair is left out
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
        return part_bytes(arrays)


class PairPart(CorpusPart):
    """The pairs of a part that was read, numbered from 0."""

    of_what = "pairs"

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        super().__init__(arrays)
        count = max(1, sum(name.endswith("source.ids") for name in arrays))
        self._copies = [
            Copy(
                [arrays[f"copy-{number}.{side}.ids"] for side in SIDES],
                [arrays[f"copy-{number}.{side}.starts"].astype(np.int64) for side in SIDES],
            )
            for number in range(count)
        ]

    def __len__(self) -> int:
        return len(self.lines)

    def copy(self, epoch: int) -> Copy:
        """The segmentation for an epoch."""
        return self._copies[epoch % len(self._copies)]
