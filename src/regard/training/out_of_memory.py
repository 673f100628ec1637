"""Out of memory: the gradient of an update is taken again of halved batches, until they fit."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from regard.data.batch import Batch
from regard.errors import RunError

Sums = TypeVar("Sums")


def in_halves(
    compute: Callable[[Sequence[Batch]], Sums], batches: Sequence[Batch], forget: Callable[[], None]
) -> Sums:
    """What `compute` gives of `batches`, or of their halves, or quarters, where there is no room.

    `forget` undoes what a pass that failed has left behind.

    Raises:
        RunError: where there is no room for a single example.
    """
    while True:
        try:
            return compute(batches)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        batches = halved(batches)  # not above: the error holds what the failed pass had in memory
        forget()


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether there was no room for a tensor. On a CPU PyTorch says so in words alone."""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def halved(batches: Sequence[Batch]) -> list[Batch]:
    """The halves of each batch; sums over them are those over the batches.

    Raises:
        RunError: where each batch is one example already.
    """
    halves = [batch.halves() or (batch,) for batch in batches]
    if all(len(each) == 1 for each in halves):
        raise RunError(
            "out of memory with a single example in a batch",
            "lower max_tokens or the model's size, or give the run a machine with more memory",
        )
    return [half for each in halves for half in each]
