"""The objective for a process's share of a batch, which may be empty."""

from dataclasses import dataclass
from typing import Any

from regard.data.process_share import EmptyShare
from regard.training.objective import Loss, Objective


@dataclass(frozen=True)
class ShareObjective:
    """The objective `base`; for an `EmptyShare`, a loss of zero with zero gradients.

    A process with an empty share computes a pass all the same: with sharded weights every pass needs all
    processes.
    """

    base: Objective

    def __call__(self, model: Any, batch: Any) -> Loss:
        if not isinstance(batch, EmptyShare):
            return self.base(model, batch)
        loss = self.base(model, batch.other)
        return Loss(total=0 * loss.total, nll=0 * loss.nll, num_targets=0)
