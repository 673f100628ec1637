"""One update: gradients, clipping, the optimiser's step and the moving average."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.data.batch import Batch
from regard.training.gradients import Gradients
from regard.training.numbers import Numbers, is_asynchronous
from regard.training.optimizer import is_fused, set_learning_rate, step_where
from regard.training.prefetch import UpdateBatches
from regard.weights.average import MovingAverage


@dataclass(frozen=True, kw_only=True)
class UpdateNumbers:
    """What was computed in an update; `parts`: the number of batches, larger if some were halved."""

    nll: float
    num_targets: int
    parts: int
    norm: float  # of the gradient, before clipping

    @property
    def is_finite(self) -> bool:
        """True if the weights were updated; otherwise the update was skipped."""
        return math.isfinite(self.nll + self.norm)


@dataclass(frozen=True, kw_only=True)
class LaunchedUpdate:
    """An update that is done, or in the queue of a GPU."""

    step: int
    epoch: int
    rate: float
    batches: Sequence[Batch]
    numbers: Numbers

    def read(self) -> UpdateNumbers:
        """The numbers of the update; waits until they are computed."""
        nll, num_targets, parts, norm = self.numbers.read()
        count = int(num_targets) if math.isfinite(num_targets) else 0
        return UpdateNumbers(nll=nll, num_targets=count, parts=int(parts), norm=norm)

    def lines(self) -> list[int]:
        """The lines of the examples of this process."""
        return list(itertools.chain(*(batch.lines.tolist() for batch in self.batches)))


def may_be_read_later(device: torch.device, optimizer: torch.optim.Optimizer) -> bool:
    """True if an update need not be read before the next one is launched."""
    return is_asynchronous(device) and is_fused(optimizer)


def launch(
    group: UpdateBatches,
    *,
    step: int,
    rate: float,
    clip_norm: float,
    gradients: Gradients,
    optimizer: torch.optim.Optimizer,
    average: MovingAverage | None,
) -> LaunchedUpdate:
    """Updates the weights, unless the loss or the gradient is not finite.

    On a GPU the whole update is put into its queue: the GPU itself decides whether the numbers are finite.
    """
    set_learning_rate(optimizer, rate)
    optimizer.zero_grad()
    sums = gradients.compute(group.batches, optimizer.zero_grad)
    norm = gradients.distributed.clip(clip_norm)
    numbers = Numbers(sums, norm)
    launched = LaunchedUpdate(
        step=step, epoch=group.cursor["epoch"], rate=rate, batches=group.batches, numbers=numbers
    )
    if may_be_read_later(gradients.device, optimizer):
        counts = (sums[0].double() + norm.double()).isfinite()
        step_where(counts, optimizer)
        if average:
            average.update_where(counts, gradients.distributed.model)
    elif launched.read().is_finite:
        optimizer.step()
        if average:
            average.update(gradients.distributed.model)
    return launched
