"""Batches: what training asks of any; pairs of sequences, padded on the right, with their lengths."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor


@runtime_checkable
class Batch(Protocol):
    """What training asks of a batch. Each task has its own, a frozen dataclass."""

    @property
    def lines(self) -> Int64[Tensor, " examples"]:
        """Where each example stands in its corpus, from 1, so that a batch can be traced to its text."""
        ...

    @property
    def num_targets(self) -> int:
        """Over how many predictions (tokens, labels) the loss is a sum."""
        ...

    def to(self, device: torch.device | str) -> "Batch": ...

    def halves(self) -> tuple["Batch", "Batch"] | None:
        """Its first examples and its last ones; None where there is a single one."""
        ...


@runtime_checkable
class LabelledBatch(Batch, Protocol):
    """A batch of which each place that is predicted has one label."""

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """What the model is called with."""
        ...

    @property
    def labels(self) -> Int64[Tensor, "*places"]:
        """The class of each place for which the model has logits; IGNORED where nothing is predicted."""
        ...


IGNORED = -100  # PyTorch's own mark for labels that count nothing

Rows = TypeVar("Rows", bound="RowBatch")


@dataclass(frozen=True, kw_only=True)
class RowBatch:
    """A batch of tensors, each with a row for each example."""

    lines: Int64[Tensor, " batch"]

    def __len__(self) -> int:
        return len(self.lines)

    def tensors(self) -> dict[str, Tensor]:
        """Those of its fields that are there."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: tensor for name, tensor in found.items() if tensor is not None}

    def to(self: Rows, device: torch.device | str) -> Rows:
        moved = {name: tensor.to(device, non_blocking=True) for name, tensor in self.tensors().items()}
        return replace(self, **moved)

    def halves(self: Rows) -> tuple[Rows, Rows] | None:
        if len(self) < 2:
            return None
        middle = len(self) // 2
        return self.rows(slice(middle)), self.rows(slice(middle, None))

    def rows(self: Rows, chosen: slice) -> Rows:
        """These examples alone, as wide as they were."""
        return replace(self, **{name: tensor[chosen] for name, tensor in self.tensors().items()})


@dataclass(frozen=True, kw_only=True)
class PairBatch(RowBatch):
    """Pairs of sequences for teacher forcing; all that stands beyond a length is padding.

    A source is `ids + [eos]`, a target `[bos] + ids + [eos]`; lengths count these marks. `lines` are
    the pairs' line numbers in the corpus.
    """

    src_ids: Int64[Tensor, "batch src_len"]
    src_lengths: Int64[Tensor, " batch"]
    tgt_ids: Int64[Tensor, "batch tgt_len"]
    tgt_lengths: Int64[Tensor, " batch"]

    @property
    def tgt_input(self) -> Int64[Tensor, "batch length"]:
        """What the decoder reads: each target without its last place."""
        return self.tgt_ids[:, :-1]

    @property
    def labels(self) -> Int64[Tensor, "batch length"]:
        """What it is to predict: each target without its first place."""
        return self.tgt_ids[:, 1:]

    @property
    def num_targets(self) -> int:
        """How many tokens are to be predicted, padding not counted."""
        return int(self.tgt_lengths.sum()) - len(self)


def pad(
    sequences: Sequence[Sequence[int] | np.ndarray],
    pad_id: int,
    *,
    rows_multiple: int = 1,
    length_multiple: int = 1,
) -> tuple[Int64[Tensor, "batch length"], Int64[Tensor, " batch"]]:
    """Sequences side by side, filled up on the right with `pad_id`, and their lengths.

    Rows and length are rounded up to the given multiples; a row that was added has length 0.
    """
    longest = max(map(len, sequences), default=0)
    ids = np.full(
        (_rounded_up(len(sequences), rows_multiple), _rounded_up(longest, length_multiple)), pad_id, np.int64
    )
    lengths = np.zeros(len(ids), np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        lengths[row] = len(sequence)
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def collate(
    sources: Sequence[Sequence[int] | np.ndarray],
    targets: Sequence[Sequence[int] | np.ndarray],
    lines: Sequence[int] | np.ndarray,
    *,
    pad_id: int,
) -> PairBatch:
    """A batch of sequences that carry their marks already (see `PairBatch`)."""
    src_ids, src_lengths = pad(sources, pad_id)
    tgt_ids, tgt_lengths = pad(targets, pad_id)
    return PairBatch(
        src_ids=src_ids,
        src_lengths=src_lengths,
        tgt_ids=tgt_ids,
        tgt_lengths=tgt_lengths,
        lines=torch.as_tensor(np.asarray(lines, np.int64)),
    )


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
