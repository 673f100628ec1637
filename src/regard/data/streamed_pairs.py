"""Pairs of a tokenised corpus in parts, for translation."""

from collections.abc import Sequence

import numpy as np

from regard.data.batch import PairBatch, collate
from regard.data.examples import Indices, Lengths
from regard.data.pair_part import PairPart
from regard.data.streamed_examples import Parts, StreamedExamples


class StreamedPairs(StreamedExamples[PairPart]):
    """Pairs of sequences; each epoch reads the next sampled segmentation.

    Args:
        sizes: the number of pairs in each part.
    """

    def __init__(self, sizes: Sequence[int], parts: Parts[PairPart], pad_id: int) -> None:
        super().__init__(sizes, parts)
        self.pad_id = pad_id

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        """The lengths of the decoder inputs and of the sources."""
        first, second = np.empty_like(examples), np.empty_like(examples)
        for part, places, inside in self.by_part(examples):
            copy = part.copy(epoch)
            first[places] = copy.target_lengths(inside) - 1
            second[places] = copy.source_lengths(inside)
        return first, second

    def batch(self, examples: Indices, epoch: int) -> PairBatch:
        """A batch of these examples; `lines` count within their parts."""
        lines = np.empty_like(examples)
        pairs: list[tuple[np.ndarray, np.ndarray]] = [(lines, lines)] * len(examples)
        for part, places, inside in self.by_part(examples):
            copy = part.copy(epoch)
            lines[places] = part.lines[inside]
            both = zip(copy.sources(inside), copy.targets(inside), strict=True)
            for place, pair in zip(places.tolist(), both, strict=True):
                pairs[place] = pair
        sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
        return collate(sources, targets, lines, pad_id=self.pad_id)
