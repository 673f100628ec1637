"""Batches: what training asks of any; pairs of sequences, padded on the right, with their lengths."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

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


@dataclass(frozen=True, kw_only=True)
class PairBatch:
    """Pairs of sequences for teacher forcing; all that stands beyond a length is padding.

    A source is `ids + [eos]`, a target `[bos] + ids + [eos]`; lengths count these marks. `lines` are
    the pairs' line numbers in the corpus.
    """

    src_ids: Int64[Tensor, "batch src_len"]
    src_lengths: Int64[Tensor, " batch"]
    tgt_ids: Int64[Tensor, "batch tgt_len"]
    tgt_lengths: Int64[Tensor, " batch"]
    lines: Int64[Tensor, " batch"]

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

    def __len__(self) -> int:
        return self.src_ids.size(0)

    def to(self, device: torch.device | str) -> "PairBatch":
        return type(self)(
            src_ids=self.src_ids.to(device, non_blocking=True),
            src_lengths=self.src_lengths.to(device, non_blocking=True),
            tgt_ids=self.tgt_ids.to(device, non_blocking=True),
            tgt_lengths=self.tgt_lengths.to(device, non_blocking=True),
            lines=self.lines.to(device, non_blocking=True),
        )


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
