"""The loss of a process's share of a batch; the share may be empty."""

from dataclasses import dataclass
from typing import Any

from regard.data.share import Idle
from regard.training.objective import Loss, Objective


@dataclass(frozen=True)
class OfShare:
    """`base`, and of an `Idle` batch a loss of zero, whose gradients are zero."""

    base: Objective

    def __call__(self, model: Any, batch: Any) -> Loss:
        if not isinstance(batch, Idle):
            return self.base(model, batch)
        loss = self.base(model, batch.other)
        return Loss(total=0 * loss.total, nll=0 * loss.nll, num_targets=0)
