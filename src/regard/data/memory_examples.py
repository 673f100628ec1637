"""Examples in memory, for your own training loop: pairs of id sequences, rows of tensors with labels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from regard.data.batch import PairBatch, RowBatch, are_targets, collate
from regard.data.examples import Indices
from regard.errors import DataError


class SequencePairs:
    """Pairs of id sequences as `Examples`, for an encoder-decoder.

    Args:
        sources: ids without special tokens; `eos_id` is appended.
        targets: ids without special tokens; `bos_id` and `eos_id` go around them.
        pad_id: fills shorter rows of a batch, and is in no sequence: as a label it would not be learned. The
            objective and the model's config have the same, which `fit` checks.

    Raises:
        DataError: their numbers differ, there are none, or one of them has `pad_id`.
    """

    def __init__(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        *,
        pad_id: int = 0,
        bos_id: int = 2,
        eos_id: int = 3,
    ) -> None:
        if len(sources) != len(targets) or not len(sources):
            raise DataError(
                f"{len(sources):,} sources and {len(targets):,} targets cannot be paired",
                "give one target for each source, and at least one pair",
            )
        if pad_id == eos_id:
            raise DataError(
                f"pad_id and eos_id are both {pad_id}, so that no target would learn to end",
                "give padding an id of its own",
            )
        _refuse_padding("sources", sources, pad_id)
        _refuse_padding("targets", targets, pad_id)
        self.pad_id = pad_id
        self._sources = [np.array([*source, eos_id], np.int64) for source in sources]
        self._targets = [np.array([bos_id, *target, eos_id], np.int64) for target in targets]
        self._source_lengths = np.array(list(map(len, self._sources)))
        self._target_lengths = np.array(list(map(len, self._targets)))

    def __len__(self) -> int:
        return len(self._sources)

    def lengths(self, examples: Indices, epoch: int) -> tuple[Indices, Indices]:
        """Positions of the decoder's input, and of the source."""
        return self._target_lengths[examples] - 1, self._source_lengths[examples]

    def batch(self, examples: Indices, epoch: int) -> PairBatch:
        return collate(
            [self._sources[number] for number in examples],
            [self._targets[number] for number in examples],
            examples + 1,
            pad_id=self.pad_id,
        )


def _refuse_padding(name: str, sequences: Sequence[Sequence[int]], pad_id: int) -> None:
    """Raise a DataError if a sequence has `pad_id`, which the loss ignores."""
    for number, sequence in enumerate(sequences):
        if places := np.flatnonzero(np.asarray(sequence) == pad_id).tolist():
            raise DataError(
                f"{name}[{number}] has pad_id = {pad_id} at place {places[0]}, which would not be learned",
                "leave padding out: batches add it; or give a pad_id that no sequence has",
            )


@dataclass(frozen=True, kw_only=True)
class TensorBatch(RowBatch):
    """Rows of a tensor and their labels; `IGNORED` labels do not count."""

    rows_in: Shaped[Tensor, " batch *shape"]
    labels: Shaped[Tensor, " batch *places"]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of the model."""
        return (self.rows_in,)

    @property
    def num_targets(self) -> int:
        return int(are_targets(self.labels).sum())


class TensorExamples:
    """Rows of a tensor with labels as `Examples`, for any module that gives logits of classes.

    Args:
        inputs: [examples, ...], one row for each example.
        labels: [examples] or [examples, places], ints of any size; `IGNORED` (-100) where nothing is
            predicted. Floats are for `SquaredError`.

    Raises:
        DataError: their numbers differ, or there are none.
    """

    def __init__(
        self, inputs: Shaped[Tensor, " examples *shape"], labels: Shaped[Tensor, " other *places"]
    ) -> None:
        if len(inputs) != len(labels) or not len(inputs):
            raise DataError(
                f"{len(inputs):,} inputs and {len(labels):,} labels do not fit",
                "give a row of labels for each row of inputs, and at least one",
            )
        self.inputs, self.labels = inputs, labels

    def __len__(self) -> int:
        return len(self.inputs)

    def lengths(self, examples: Indices, epoch: int) -> tuple[Indices, Indices]:
        """All rows are equally long: one position each."""
        ones = np.ones(len(examples), np.int64)
        return ones, ones

    def batch(self, examples: Indices, epoch: int) -> TensorBatch:
        numbers = torch.from_numpy(np.asarray(examples, np.int64))
        return TensorBatch(lines=numbers + 1, rows_in=self.inputs[numbers], labels=self.labels[numbers])
