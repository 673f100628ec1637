"""Gradients of one update: of the mean loss over the targets of several batches of all processes."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from numbers import Real
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.batch import Batch
from regard.data.packed_pairs import PackedPairs
from regard.distributed.distributed_model import DistributedModel
from regard.distributed.replicated import ReplicatedModel
from regard.errors import UserError
from regard.fast.half_copies import copies
from regard.fast.half_weights import half_weights
from regard.fast.supported import is_known_in_training
from regard.training.graphed_pass import GraphedPass
from regard.training.losses import CustomLoss
from regard.training.numbers import is_asynchronous
from regard.training.objective import CrossEntropy, Loss, NextToken, Objective
from regard.training.out_of_memory import with_halved_batches
from regard.training.packed_loss import packed_loss, packed_of
from regard.training.recomputation import recomputed
from regard.training.share_objective import ShareObjective

KNOWN: dict[type, Any] = {kind: kind.__call__ for kind in (CrossEntropy, NextToken)}  # as nobody changed them


class Gradients:
    """Computes the gradients of `objective` on `device` with the given precision.

    `recompute`: the activations of blocks are not kept, but computed again in the backward pass.
    """

    def __init__(
        self,
        distributed: DistributedModel,
        objective: Objective,
        device: torch.device,
        precision: str,
        *,
        recompute: bool = False,
    ) -> None:
        self.distributed, self.objective = distributed, objective
        self.device, self.precision, self.recompute = device, precision, recompute
        self._graphed: GraphedPass | None = None

    def __call__(self, batches: Sequence[Batch], reset: Callable[[], None]) -> tuple[float, int, int]:
        """Computes the gradients and stores them in the weights' `grad`.

        Returns the summed negative log-likelihood, the number of targets, and the number of batches, which
        is larger if batches were halved for lack of memory. `reset` clears the gradients of a failed pass.
        """
        nll, num_targets, parts = self.compute(batches, reset).tolist()
        return nll, int(num_targets), int(parts)

    def compute(self, batches: Sequence[Batch], reset: Callable[[], None]) -> Float[Tensor, "3"]:
        """Does the same, and returns the three numbers as a tensor; so nothing waits for a GPU."""
        sums = (
            self._backward(batches)
            if self.distributed.is_sharded
            else with_halved_batches(self._backward, batches, reset)
        )
        gradients = [p.grad for p in self.distributed.model.parameters() if p.grad is not None]
        self.distributed.sum_(gradients, sums)
        if gradients:
            torch._foreach_div_(gradients, sums[1])  # pyright: ignore[reportPrivateImportUsage]
        return sums

    def _backward(self, batches: Sequence[Batch]) -> Tensor:
        """Backpropagates the summed loss; returns the sums of log-likelihoods, targets and batches."""
        sums = torch.zeros(3, device=self.device)
        here = torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()
        with here, recomputed(self.distributed.model, on=self.recompute):
            for batch in batches:
                sums = sums + self._pass(batch)
        return sums

    def _pass(self, batch: Batch) -> Float[Tensor, "3"]:
        """`_pass_of`, on a GPU without padding and recorded, if it always computes the same of a batch."""
        model = self.distributed.model
        is_whole = type(self.distributed) is ReplicatedModel and is_asynchronous(self.device)
        if not is_whole or not self._is_known or not is_known_in_training(model):
            return self._pass_of(batch)
        self._graphed = self._graphed or GraphedPass(model)
        state = self.objective, self.precision
        with self._autocast():
            packed = packed_of(model, self._base, batch)
        if packed is not None:
            return self._graphed(self._packed_pass_of, packed, state)
        return self._graphed(self._pass_of, batch, state)

    def _packed_pass_of(self, packed: PackedPairs) -> Float[Tensor, "3"]:
        """What `_pass_of` computes, of pairs without padding."""
        model = self.distributed.model
        with self._autocast(), half_weights(model), copies(True):
            total, nll = packed_loss(model, self._base, packed)
        _refuse_without_gradient(total, self.objective)
        total.backward()
        return torch.stack([nll, packed.num_targets[0].float(), nll.new_ones(())])

    @property
    def _is_known(self) -> bool:
        """True if the objective looks at nothing of the model but its last states."""
        kind = type(self._base)
        return KNOWN.get(kind) is kind.__call__

    @property
    def _base(self) -> Objective:
        """The objective itself, without what is around it for empty shares (they are never packed)."""
        return self.objective.base if type(self.objective) is ShareObjective else self.objective

    def _pass_of(self, batch: Batch) -> Float[Tensor, "3"]:
        """Backpropagates the loss of a batch; returns its log-likelihood, its targets, and 1."""
        model = self.distributed.model
        known = self._is_known and is_asynchronous(self.device) and is_known_in_training(model)
        with self._autocast(), half_weights(model), copies(known):
            loss = self.distributed.loss(self.objective, batch)
        refuse_other_than_loss(loss, self.objective)
        _refuse_without_gradient(loss.total, self.objective)
        loss.total.backward()
        nll = loss.nll.detach()
        nll = nll if nll.dtype == torch.float64 else nll.float()
        return torch.stack([nll, nll.new_full((), float(loss.num_targets)), nll.new_ones(())])

    def _autocast(self):
        on_gpu = self.device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        if self.precision == "bfloat16" or (self.precision == "auto" and on_gpu):
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return nullcontext()  # on a CPU without bfloat16 units, autocast is slower


def refuse_other_than_loss(loss: Any, objective: Any) -> None:
    """Raises a UserError if an objective returned something other than a `Loss` of single numbers."""
    if not isinstance(loss, Loss):
        raise UserError(
            f"the objective {objective_name(objective)} returned {type(loss).__name__}, not a Loss",
            "return regard.training.Loss(total=..., nll=..., num_targets=...), each summed over the batch",
        )
    for field in ("total", "nll"):
        value = getattr(loss, field)
        if not isinstance(value, Tensor) or value.ndim:
            shape = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise UserError(
                f"the objective {objective_name(objective)} returned a Loss whose {field} is {shape},"
                " not one number",
                f"sum {field} over the targets of the batch, as a tensor without dimensions",
            )
    count = loss.num_targets
    if not isinstance(count, Real | Tensor) or (isinstance(count, Real) and not count >= 0):
        raise UserError(
            f"the objective {objective_name(objective)} returned a Loss whose num_targets is {count!r}",
            "count the targets of the batch, by which training divides total",
        )


def _refuse_without_gradient(total: Tensor, objective: Any) -> None:
    if not total.requires_grad:
        raise UserError(
            f"the loss of {objective_name(objective)} has no gradient: it does not depend on a trained"
            " weight",
            "compute it without detach(), item() and torch.no_grad(), and freeze fewer weights",
        )


def refuse_zero_gradient(norm: float, objective: Any) -> None:
    """Raises a UserError if the gradient of a first update has this norm, and the norm is 0."""
    if not norm:
        raise UserError(
            f"the gradient of {objective_name(objective)} is 0 in the first update: its loss does not change"
            " with any trained weight",
            "compute the loss from logits or states: argmax, rounding and comparisons have no gradient, and a"
            " factor of 0 leaves none",
        )


def objective_name(objective: Any) -> str:
    """The name of a registered loss, or of the class or function of an objective."""
    objective = objective.base if isinstance(objective, ShareObjective) else objective
    if isinstance(objective, CustomLoss):
        return repr(objective.name)
    return getattr(objective, "__name__", type(objective).__name__)
