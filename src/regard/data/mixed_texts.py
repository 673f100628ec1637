"""Examples of several corpora of running text, of which each has a share of every epoch.

Each reading of a corpus counts as an epoch of it: blocks begin at another offset, other tokens are masked.
The number of an example says which reading it is: that of example n in reading r is n + r * (all examples).
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from regard.data.corpus_mixture import Mixture
from regard.data.examples import Indices, Lengths
from regard.data.mixture_order import MixtureOrder
from regard.data.texts import EncodedText, LabelledTextBatch, Noise, TextExamples, text_batch
from regard.data.token_stream import CorpusTokens, TextBatch, TokenStream
from regard.data.windows import PackedExamples, WindowExamples

READINGS = 1 << 20  # of a corpus, after which the first comes again


class MixedWindows:
    """Windows of `block` predictions, each within one corpus; see `WindowExamples`.

    Raises:
        DataError: a corpus has less than a block.
    """

    def __init__(
        self, stream: TokenStream, block: int, *, seed: int, mixture: Mixture, names: Sequence[str]
    ) -> None:
        self._corpora = [
            WindowExamples(CorpusTokens(stream, documents), block, seed=seed, name=name)
            for documents, name in zip(stream.corpora, names, strict=True)
        ]
        self.sizes = [len(each) for each in self._corpora]
        self._ends, self._block, self._mixture = np.cumsum(self.sizes), block, mixture

    def __len__(self) -> int:
        return int(self._ends[-1])

    def order(self, window: int, seed: int) -> MixtureOrder:
        """The order that reads the corpora by their shares."""
        return _order(self.sizes, self._mixture, window, seed)

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        """All are equally long."""
        lengths = np.full(len(examples), self._block)
        return lengths, lengths

    def batch(self, examples: Indices, epoch: int) -> TextBatch:
        ids = np.empty((len(examples), self._block), np.int64)
        labels = np.empty_like(ids)
        for corpus, reading, places, inside in self._groups(examples):
            found = self._corpora[corpus].batch(inside, reading)
            ids[places], labels[places] = found.ids.numpy(), found.labels.numpy()
        lines = torch.from_numpy(examples % len(self) + 1)
        return TextBatch(
            ids=torch.from_numpy(ids), labels=torch.from_numpy(labels), documents=None, lines=lines
        )

    def _groups(self, examples: Indices) -> Iterator[tuple[int, int, np.ndarray, Indices]]:
        """For each corpus and reading: the places of its examples among these, their numbers in it."""
        readings, numbers = np.divmod(examples, len(self))
        corpora = np.searchsorted(self._ends, numbers, side="right")
        for corpus, reading in np.unique(np.stack([corpora, readings], axis=1), axis=0).tolist():
            places = np.flatnonzero((corpora == corpus) & (readings == reading))
            yield corpus, reading, places, numbers[places] - (self._ends[corpus] - self.sizes[corpus])


class MixedRows(PackedExamples):
    """Rows of whole documents, each of one corpus; see `PackedExamples`."""

    def __init__(self, stream: TokenStream, block: int, mixture: Mixture) -> None:
        super().__init__(stream, block)
        self._mixture = mixture

    def order(self, window: int, seed: int) -> MixtureOrder:
        """The order that reads the corpora by their shares."""
        return MixtureOrder(self.sizes, self._mixture.reads(self.sizes).tolist(), window, seed=seed)


class MixedTexts(TextExamples):
    """Texts in memory of several corpora; each reading of a text has the next segmentation, and other noise.

    Args:
        sizes: the number of texts of each corpus, one after the other.
    """

    def __init__(
        self,
        segmentations: Sequence[Callable[[], Sequence[EncodedText]]],
        pad_id: int,
        noise: Noise | None,
        *,
        sizes: Sequence[int],
        mixture: Mixture,
    ) -> None:
        super().__init__(segmentations, pad_id, noise)
        self.sizes, self._mixture = sizes, mixture

    def order(self, window: int, seed: int) -> MixtureOrder:
        """The order that reads the corpora by their shares."""
        return _order(self.sizes, self._mixture, window, seed)

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        found = np.zeros(len(examples), np.int64)
        readings, numbers = np.divmod(examples, len(self))
        for reading in np.unique(readings).tolist():
            places = np.flatnonzero(readings == reading)
            found[places] = super().lengths(numbers[places], reading)[0]
        return found, found

    def batch(self, examples: Indices, epoch: int) -> LabelledTextBatch:
        readings, numbers = np.divmod(examples, len(self))
        pairs = zip(numbers.tolist(), readings.tolist(), strict=True)
        return text_batch([self.text(number, reading) for number, reading in pairs], self._pad_id)


def _order(sizes: Sequence[int], mixture: Mixture, window: int, seed: int) -> MixtureOrder:
    return MixtureOrder(sizes, mixture.reads(sizes).tolist(), window, seed=seed, copies=READINGS)
