"""Running text of a tokenised corpus in parts, for language models."""

from collections.abc import Sequence

import numpy as np
import torch

from regard.data.examples import Indices, Lengths
from regard.data.streamed_examples import Parts, StreamedExamples
from regard.data.text_part import TextPart
from regard.data.token_stream import TextBatch
from regard.data.windows import WindowExamples, windows_in


class StreamedTexts(StreamedExamples[TextPart]):
    """Windows of `block` predictions, each within a part; see `WindowExamples`.

    Args:
        tokens: the number of tokens in each part.
        bos_id: what a model reads before a document.
    """

    def __init__(
        self, tokens: Sequence[int], parts: Parts[TextPart], block: int, *, bos_id: int, seed: int
    ) -> None:
        super().__init__([windows_in(count, block) for count in tokens], parts)
        self._block, self._bos_id, self._seed = block, bos_id, seed

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        """All are equally long."""
        lengths = np.full(len(examples), self._block)
        return lengths, lengths

    def batch(self, examples: Indices, epoch: int) -> TextBatch:
        """A batch of these windows; `lines` count within their parts."""
        ids = np.empty((len(examples), self._block), np.int64)
        labels, lines = np.empty_like(ids), np.empty_like(examples)
        for part, places, inside in self.by_part(examples):
            found = WindowExamples(part.tokens(self._bos_id), self._block, seed=self._seed).batch(
                inside, epoch
            )
            ids[places], labels[places] = found.ids.numpy(), found.labels.numpy()
            lines[places] = inside + 1
        ids, labels, lines = map(torch.from_numpy, (ids, labels, lines))
        return TextBatch(ids=ids, labels=labels, documents=None, lines=lines)
