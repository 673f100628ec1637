"""Gradients of one update: the mean loss over the targets of several batches, of all processes."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.distributed.distributed_model import DistributedModel
from regard.training.objective import Objective
from regard.training.out_of_memory import in_halves


class Gradients:
    """Takes the gradients of `objective`, in the precision that is asked for, on `device`."""

    def __init__(
        self, strategy: DistributedModel, objective: Objective, device: torch.device, precision: str
    ) -> None:
        self.strategy, self.objective, self.device, self.precision = strategy, objective, device, precision

    def __call__(self, batches: Sequence[Batch], forget: Callable[[], None]) -> tuple[float, int, int]:
        """Put them into the weights' `grad`.

        Returns the summed negative log-likelihood, the number of targets, and the number of batches, which
        is larger where some had to be halved. `forget` undoes what a pass that failed has left behind.
        """
        sums = self._of_sums(batches) if self.strategy.lockstep else in_halves(self._of_sums, batches, forget)
        gradients = [p.grad for p in self.strategy.model.parameters() if p.grad is not None]
        self.strategy.sum_(gradients, sums)
        nll, num_targets, parts = sums.tolist()
        for gradient in gradients:
            gradient /= num_targets
        return nll, int(num_targets), int(parts)

    def _of_sums(self, batches: Sequence[Batch]) -> Tensor:
        """Gradients of the sum of the losses; the sums of likelihoods and targets, and how many batches."""
        sums = torch.zeros(3, device=self.device)
        for batch in batches:
            with self._autocast():
                loss = self.strategy.loss(self.objective, batch)
            loss.total.backward()
            nll = loss.nll if loss.nll.dtype == torch.float64 else loss.nll.float()
            sums = sums + torch.stack([nll, nll.new_tensor(float(loss.num_targets)), nll.new_ones(())])
        return sums

    def _autocast(self):
        on_gpu = self.device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        if self.precision == "bfloat16" or (self.precision == "auto" and on_gpu):
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return nullcontext()  # on a CPU without bfloat16 units autocast costs ten times what it saves
