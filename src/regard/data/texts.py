"""Encoded texts: ids with word boundaries, labels and special tokens; batches of them."""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64, Shaped
from torch import Tensor

from regard.data.batch import RowBatch, pad
from regard.data.examples import Indices, Lengths
from regard.data.tokenizer import Tokenizer

NO_WORD = -1  # the word index of a special token


@dataclass(frozen=True, kw_only=True)
class EncodedText:
    """The ids of a text and its labels.

    The text begins with <s> (BERT's [CLS]) and ends with </s>.
    """

    ids: Int[np.ndarray, " len"]
    words: Int[np.ndarray, " len"]  # the index of each piece's word from 0; NO_WORD for special tokens
    labels: Shaped[np.ndarray, " labels"]  # one for the text, or one for each of `places`
    line: int  # line number in the corpus, from 1
    places: Int[np.ndarray, " labels"] | None = None  # the predicted positions in rising order


def encoded_text(
    pieces: Sequence[Sequence[int]],
    labels: Sequence[int] | Sequence[float],
    *,
    tokenizer: Tokenizer,
    line: int,
    max_tokens: int | None = None,
) -> EncodedText:
    """An encoded text from the ids of each word, truncated to `max_tokens`."""
    inner = [number for word in pieces for number in word]
    words = [number for number, word in enumerate(pieces) for _ in word]
    limit = len(inner) if max_tokens is None else max(0, max_tokens - 2)
    return EncodedText(
        ids=np.array([tokenizer.bos_id, *inner[:limit], tokenizer.eos_id], np.int32),
        words=np.array([NO_WORD, *words[:limit], NO_WORD], np.int32),
        labels=np.array(labels),
        line=line,
    )


@dataclass(frozen=True, kw_only=True)
class LabelledTextBatch(RowBatch):
    """A batch of encoded texts, padded on the right."""

    ids: Int64[Tensor, "batch len"]
    lengths: Int64[Tensor, " batch"]
    labels: Int64[Tensor, " labels"] | Float[Tensor, " labels"]  # one per text or, row by row, per place
    places: Bool[Tensor, "batch len"] | None = None  # a mask of the predicted positions

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
        return replace(self, labels=labels, targets=None, **rest)


def text_batch(texts: Sequence[EncodedText], pad_id: int) -> LabelledTextBatch:
    """A batch of these texts."""
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


# (text, epoch, index of the text) -> the noised text for training
Noise = Callable[[EncodedText, int, int], EncodedText]


class TextExamples:
    """Texts in memory as `Examples`, with optional `noise`.

    Each of `segmentations` returns the same lines, segmented in another way. They alternate, one per epoch;
    each is called once, when it is first needed. A long line may be cut into several texts: one that a later
    segmentation cuts into more or fewer than the first keeps the first, since all epochs have the same size.
    """

    def __init__(
        self,
        segmentations: Sequence[Callable[[], Sequence[EncodedText]]],
        pad_id: int,
        noise: Noise | None = None,
    ) -> None:
        first, *others = segmentations
        self._segmentations = [functools.cache(first)]
        self._segmentations += [functools.cache(partial(self._of_same_size, texts)) for texts in others]
        self._lengths = [functools.cache(partial(_lengths, texts)) for texts in self._segmentations]
        self._pad_id, self._noise = pad_id, noise

    def _of_same_size(self, texts: Callable[[], Sequence[EncodedText]]) -> Sequence[EncodedText]:
        return _cut_as(self._segmentations[0](), texts())

    def __len__(self) -> int:
        return len(self._segmentations[0]())

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        lengths = self._lengths[epoch % len(self._lengths)]()[examples]
        return lengths, lengths

    def batch(self, examples: Indices, epoch: int) -> LabelledTextBatch:
        return text_batch([self.text(number, epoch) for number in examples.tolist()], self._pad_id)

    def text(self, number: int, epoch: int) -> EncodedText:
        """A text as an epoch reads it."""
        text = self._segmentations[epoch % len(self._segmentations)]()[number]
        return text if self._noise is None else self._noise(text, epoch, number)


def _cut_as(first: Sequence[EncodedText], others: Sequence[EncodedText]) -> Sequence[EncodedText]:
    """`others`, but a line that has another number of texts in `first` has the texts of `first`."""
    if [text.line for text in first] == [text.line for text in others]:
        return others
    of_first, of_others = _by_line(first), _by_line(others)
    return [
        text
        for line, texts in of_first.items()
        for text in (of_others[line] if len(of_others[line]) == len(texts) else texts)
    ]


def _by_line(texts: Sequence[EncodedText]) -> defaultdict[int, list[EncodedText]]:
    found = defaultdict[int, list[EncodedText]](list)
    for text in texts:
        found[text.line].append(text)
    return found


def _lengths(texts: Callable[[], Sequence[EncodedText]]) -> Indices:
    return np.array([len(text.ids) for text in texts()], np.int64)


def length_sorted_batches(
    texts: Sequence[EncodedText], pad_id: int, batch_tokens: int
) -> Iterator[tuple[list[int], LabelledTextBatch]]:
    """Batches of all texts sorted by length, within `batch_tokens`; each with the indices of its texts."""
    for group in length_sorted_groups([len(text.ids) for text in texts], batch_tokens):
        yield group, text_batch([texts[number] for number in group], pad_id)


def length_sorted_groups(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """The indices of rows of these lengths, sorted by length, in groups within `batch_tokens` if padded."""
    group: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and lengths[number] * (len(group) + 1) > batch_tokens:
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def apply_noise(noise: Noise, texts: Sequence[EncodedText]) -> list[EncodedText]:
    """The texts with the noise of epoch 0, a fixed validation set."""
    return [noise(text, 0, number) for number, text in enumerate(texts)]
