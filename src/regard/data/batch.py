"""Batches: the protocols that training needs, and padded pairs of sequences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Int64, Shaped
from torch import Tensor

from regard.data.packed_pairs import PackedPairs


@runtime_checkable
class Batch(Protocol):
    """The interface that training needs of a batch. Each task has its own frozen dataclass."""

    @property
    def lines(self) -> Int64[Tensor, " examples"]:
        """The line number of each example in its corpus, from 1, for messages."""
        ...

    @property
    def num_targets(self) -> int:
        """The number of predictions (tokens, labels) that the loss sums over."""
        ...

    def to(self, device: torch.device | str) -> "Batch":
        """The batch on another device."""
        ...

    def halves(self) -> tuple["Batch", "Batch"] | None:
        """The first and the second half of the examples; None if the batch cannot be split."""
        ...


@runtime_checkable
class LabelledBatch(Batch, Protocol):
    """A batch with one label for each predicted position."""

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """The arguments of the model's forward pass."""
        ...

    @property
    def labels(self) -> Int64[Tensor, "*places"]:
        """The label of each position that has logits; IGNORED where nothing is predicted."""
        ...


IGNORED = -100  # PyTorch's label for positions without a loss


def are_targets(labels: Shaped[Tensor, "*places"], ignored: int = IGNORED) -> Bool[Tensor, "*places"]:
    """True where a label is not `ignored`, which small types such as uint8 do not have."""
    return (labels if labels.is_floating_point() else labels.long()) != ignored


SomeRowBatch = TypeVar("SomeRowBatch", bound="RowBatch")


@dataclass(frozen=True, kw_only=True)
class RowBatch:
    """A batch of tensors whose first axis is the example; a subclass with others overrides `rows`.

    Attributes:
        PREPARED: names of fields that are computed from the others for a GPU (training/prefetch.py), and None
            until then.
    """

    PREPARED: ClassVar[tuple[str, ...]] = ("targets",)

    lines: Int64[Tensor, " batch"]
    # indices into the flat labels of those not ignored
    targets: Int64[Tensor, " targets"] | None = None

    def __len__(self) -> int:
        return len(self.lines)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors with one row for each example, by field name, without fields that are None."""
        names = [field.name for field in fields(self) if field.name not in self.PREPARED]
        return {name: tensor for name in names if (tensor := getattr(self, name)) is not None}

    def to(self: SomeRowBatch, device: torch.device | str) -> SomeRowBatch:
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self: SomeRowBatch) -> SomeRowBatch:
        """The batch in page-locked memory, so that copies to a GPU are asynchronous."""
        return self._each(Tensor.pin_memory)

    def _each(self: SomeRowBatch, function: Callable[[Tensor], Tensor]) -> SomeRowBatch:
        changed = {name: function(tensor) for name, tensor in self.tensors().items()}
        return replace(
            self, **changed, **{name: _mapped(function, getattr(self, name)) for name in self.PREPARED}
        )

    def halves(self: SomeRowBatch) -> tuple[SomeRowBatch, SomeRowBatch] | None:
        if len(self) < 2:
            return None
        middle = len(self) // 2
        return self.rows(slice(middle)), self.rows(slice(middle, None))

    def rows(self: SomeRowBatch, chosen: slice) -> SomeRowBatch:
        """The batch with only these examples, padding unchanged."""
        chosen_rows = {name: tensor[chosen] for name, tensor in self.tensors().items()}
        return replace(self, **chosen_rows, **dict.fromkeys(self.PREPARED))


def _mapped(function: Callable[[Tensor], Tensor], prepared: Any) -> Any:
    if prepared is None:
        return None
    return function(prepared) if isinstance(prepared, Tensor) else prepared.each(function)


@dataclass(frozen=True, kw_only=True)
class PairBatch(RowBatch):
    """Pairs of sequences for teacher forcing, padded on the right.

    A source is `ids + [eos]`, a target `[bos] + ids + [eos]`; `src_lengths` count eos, `tgt_lengths` bos and
    eos. Padding has `pad_id` in the labels too, where batches of one label for each position have IGNORED.
    """

    PREPARED: ClassVar[tuple[str, ...]] = ("targets", "packed")

    src_ids: Int64[Tensor, "batch src_len"]
    src_lengths: Int64[Tensor, " batch"]
    tgt_ids: Int64[Tensor, "batch tgt_len"]
    tgt_lengths: Int64[Tensor, " batch"]
    packed: PackedPairs | None = None

    @property
    def tgt_input(self) -> Int64[Tensor, "batch length"]:
        """The decoder's input: each target without its last position."""
        return self.tgt_ids[:, :-1]

    @property
    def labels(self) -> Int64[Tensor, "batch length"]:
        """The tokens to predict: each target without its first position."""
        return self.tgt_ids[:, 1:]

    @property
    def num_targets(self) -> int:
        """The number of tokens to predict, without padding."""
        return int(self.tgt_lengths.sum()) - len(self)  # bos is not predicted


def pad(
    sequences: Sequence[Sequence[int] | np.ndarray],
    pad_id: int,
    *,
    rows_multiple: int = 1,
    length_multiple: int = 1,
) -> tuple[Int64[Tensor, "batch length"], Int64[Tensor, " batch"]]:
    """Stacks sequences, padded on the right with `pad_id`; returns ids and lengths.

        pad([[5, 6, 7], [8]], 0)  # ids [[5, 6, 7], [8, 0, 0]], lengths [3, 1]

    Both are int64 tensors on the CPU. The number of rows and the padded length are rounded up to the given
    multiples. An added row has length 0. Nothing is added to a sequence: no begin and no end. `padding_mask`
    of `regard.layers` makes the mask of these lengths, True where a position is not padding.
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
    """A batch of sequences that already have their bos and eos (see `PairBatch`)."""
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
