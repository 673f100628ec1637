"""Texts as ids: cut into words and pieces, between their marks, side by side in a batch."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64, Shaped
from torch import Tensor

from regard.data.batch import RowBatch, pad
from regard.data.examples import Numbers
from regard.data.tokenizer import Tokenizer

NO_WORD = -1  # the word of a mark


@dataclass(frozen=True, kw_only=True)
class EncodedText:
    """The ids of a text and what is to be predicted of it.

    It stands between the marks <s> and </s>; the first is what BERT calls [CLS]. `words`: to which word
    each piece belongs, counted from 0, NO_WORD for marks. `labels`: one of the whole text, or one for
    each of `places`, the positions that are predicted, in rising order.
    """

    ids: Int[np.ndarray, " len"]
    words: Int[np.ndarray, " len"]
    labels: Shaped[np.ndarray, " labels"]
    line: int
    places: Int[np.ndarray, " labels"] | None = None


def text_of(
    pieces: Sequence[Sequence[int]],
    labels: Sequence[int] | Sequence[float],
    *,
    tokenizer: Tokenizer,
    line: int,
    max_tokens: int | None = None,
) -> EncodedText:
    """A text of which `pieces` are the ids of each word; of a longer one than `max_tokens` its beginning."""
    inner = [number for word in pieces for number in word]
    words = [number for number, word in enumerate(pieces) for _ in word]
    most = len(inner) if max_tokens is None else max(0, max_tokens - 2)
    return EncodedText(
        ids=np.array([tokenizer.bos_id, *inner[:most], tokenizer.eos_id], np.int32),
        words=np.array([NO_WORD, *words[:most], NO_WORD], np.int32),
        labels=np.array(labels),
        line=line,
    )


@dataclass(frozen=True, kw_only=True)
class LabelledTextBatch(RowBatch):
    """Texts side by side; all that stands beyond a length is padding.

    `labels` are of the texts or, where there are `places`, of these, row by row.
    """

    ids: Int64[Tensor, "batch len"]
    lengths: Int64[Tensor, " batch"]
    labels: Int64[Tensor, " labels"] | Float[Tensor, " labels"]
    places: Bool[Tensor, "batch len"] | None = None

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        return self.ids, self.lengths, None, self.places

    @property
    def num_targets(self) -> int:
        return len(self.labels)

    def rows(self, chosen: slice) -> "LabelledTextBatch":
        if self.places is None:
            return super().rows(chosen)
        of_rows = torch.arange(len(self), device=self.ids.device)[chosen]
        row_of_label = self.places.nonzero()[:, 0]
        labels = self.labels[torch.isin(row_of_label, of_rows)]
        rest = {name: tensor[chosen] for name, tensor in self.tensors().items() if name != "labels"}
        return replace(self, labels=labels, **rest)


def text_batch(texts: Sequence[EncodedText], pad_id: int) -> LabelledTextBatch:
    """These texts side by side."""
    ids, lengths = pad([text.ids for text in texts], pad_id)
    places = None
    if texts[0].places is not None:
        places = torch.zeros(ids.shape, dtype=torch.bool)
        for row, text in enumerate(texts):
            places[row, torch.from_numpy(text.places)] = True
    labels = torch.from_numpy(np.concatenate([text.labels for text in texts]))
    return LabelledTextBatch(
        ids=ids,
        lengths=lengths,
        labels=labels.float() if labels.is_floating_point() else labels.long(),
        lines=torch.tensor([text.line for text in texts]),
        places=places,
    )


# What training sees in the place of a text: a function of the text, the epoch and the text's number.
Noise = Callable[[EncodedText, int, int], EncodedText]


class TextExamples:
    """Texts in memory; `noise` is put on them, if any.

    `segmentations` each give the same texts, cut into pieces in another way: they take turns, one an epoch,
    and are asked once, when their turn comes.
    """

    def __init__(
        self,
        segmentations: Sequence[Callable[[], Sequence[EncodedText]]],
        pad_id: int,
        noise: Noise | None = None,
    ) -> None:
        self._segmentations = [functools.cache(texts) for texts in segmentations]
        self._lengths = [functools.cache(partial(_lengths, texts)) for texts in self._segmentations]
        self._pad_id, self._noise = pad_id, noise

    def __len__(self) -> int:
        return len(self._segmentations[0]())

    def lengths(self, examples: Numbers, epoch: int) -> tuple[Numbers, Numbers]:
        lengths = self._lengths[epoch % len(self._lengths)]()[examples]
        return lengths, lengths

    def batch(self, examples: Numbers, epoch: int) -> LabelledTextBatch:
        texts = self._segmentations[epoch % len(self._segmentations)]()
        chosen = [texts[number] for number in examples.tolist()]
        if self._noise is not None:
            noise = self._noise
            chosen = [
                noise(text, epoch, number) for text, number in zip(chosen, examples.tolist(), strict=True)
            ]
        return text_batch(chosen, self._pad_id)


def _lengths(texts: Callable[[], Sequence[EncodedText]]) -> Numbers:
    return np.array([len(text.ids) for text in texts()], np.int64)


def in_batches(
    texts: Sequence[EncodedText], pad_id: int, batch_tokens: int
) -> Iterator[tuple[list[int], LabelledTextBatch]]:
    """All texts in order of length, as many at a time as `batch_tokens` allows, with their numbers."""
    order = sorted(range(len(texts)), key=lambda number: len(texts[number].ids))
    group: list[int] = []
    for number in order:
        if group and len(texts[number].ids) * (len(group) + 1) > batch_tokens:
            yield group, text_batch([texts[i] for i in group], pad_id)
            group = []
        group.append(number)
    if group:
        yield group, text_batch([texts[i] for i in group], pad_id)


def with_noise(noise: Noise, texts: Sequence[EncodedText]) -> list[EncodedText]:
    """Each text once, the noise of the epoch 0 on it: what is validated must not change."""
    return [noise(text, 0, number) for number, text in enumerate(texts)]
