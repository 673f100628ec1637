"""Recovery from a lack of memory: gradients are computed again with halved batches, until they fit."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from regard.data.batch import Batch
from regard.errors import RunError

Sums = TypeVar("Sums")


def with_halved_batches(
    compute: Callable[[Sequence[Batch]], Sums], batches: Sequence[Batch], reset: Callable[[], None]
) -> Sums:
    """The result of `compute` for `batches`, or for their halves, quarters and so on if memory is short.

    `reset` clears the results of a failed pass.

    Raises:
        RunError: memory is short even for a single example.
    """
    while True:
        try:
            return compute(batches)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        batches = halved(batches)  # outside the except block, where the error keeps the failed pass in memory
        reset()


def is_out_of_memory(error: RuntimeError) -> bool:
    """True if memory was short. On a CPU PyTorch has no error class for it, only a message."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def halved(batches: Sequence[Batch]) -> list[Batch]:
    """The halves of all batches, with the same examples in total.

    Raises:
        RunError: each batch has a single example already.
    """
    halves = [batch.halves() or (batch,) for batch in batches]
    if all(len(each) == 1 for each in halves):
        raise RunError(
            "out of memory with a single example in a batch",
            "lower max_tokens or the model's size, or use a machine with more memory",
        )
    return [half for each in halves for half in each]
