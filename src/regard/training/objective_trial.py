"""A trial of an objective that is not regard's own: is its loss a sum over the targets that it counts?"""

import copy
import math
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.counted import counted
from regard.data.examples import Examples
from regard.data.process_share import ProcessShare
from regard.distributed.distributed_model import DistributedModel
from regard.errors import UserError
from regard.training.gradients import objective_name, refuse_other_than_loss
from regard.training.losses import CustomLoss
from regard.training.objective import Loss, Objective
from regard.training.random_state import unchanged_random

SAME = 1e-3  # largest difference of equal losses, as a share of them
FEW, MANY = 2, 32  # examples of a trial; many where the likelihood of few is 0, as that of known ones may be


def refuse_wrong_objective(
    objective: Objective, distributed: DistributedModel, examples: Examples, device: torch.device
) -> None:
    """Raise a UserError, in all processes, if the loss of a batch does not grow with its targets.

    Or if its likelihood, which is reported, is 0 for all. Objectives of regard are not tried, but for a
    registered loss in them, nor what fails in the trial. The first process evaluates the model without
    gradients; afterwards its mode and the generators of random numbers are as they were. A copy of the
    objective is called.
    """
    if is_own(objective) or not len(examples):
        return
    objective = _registered_loss(objective) or objective
    if isinstance(examples, ProcessShare):
        examples = examples.examples
    found = distributed.group.broadcast(
        distributed.on_first(partial(fault, objective, examples=examples, device=device))
    )
    if found is not None:
        message, hint = found
        raise UserError(message, hint)


def _registered_loss(objective: Any) -> CustomLoss | None:
    """The registered loss in an objective; None if there is none."""
    while objective is not None and not isinstance(objective, CustomLoss):
        objective = getattr(objective, "base", None)
    return objective


def fault(
    objective: Objective, model: nn.Module, examples: Examples, device: torch.device
) -> tuple[str, str] | None:
    """What is wrong with the losses of an objective, and what to do; None if nothing was found."""
    few, many = (np.arange(min(count, len(examples))) for count in (FEW, MANY))
    with suppress(Exception):
        once, twice = _losses(objective, model, examples, device, [few, np.concatenate([few, few])])
        if found := _fault_of_sums(objective, once, twice, len(few)):
            return found
        if float(once.total) and not float(once.nll):
            return _no_likelihood(objective, _losses(objective, model, examples, device, [many])[0])
    return None


def is_own(objective: Any) -> bool:
    """True for an objective of regard that is made from no other one, and from no registered loss."""
    while (own := type(objective).__module__.startswith("regard.")) and hasattr(objective, "base"):
        if isinstance(objective, CustomLoss):
            return False
        objective = objective.base
    return own


def _fault_of_sums(objective: Objective, once: Loss, twice: Loss, examples: int) -> tuple[str, str] | None:
    """The fault of a loss that is a mean and counts several targets, or a sum and counts always the same."""
    name = objective_name(objective)
    is_constant = once.num_targets == twice.num_targets
    if not is_constant and twice.num_targets != 2 * once.num_targets:
        return None
    for field in ("total", "nll"):
        first, second = (float(getattr(each, field)) for each in (once, twice))
        if is_constant and first and math.isclose(2 * first, second, rel_tol=SAME):
            targets = counted(int(once.num_targets), "target")
            return (
                f"the objective {name} counts {targets} for {examples} examples and for"
                f" {2 * examples}, but its {field} is a sum: {first:.4g}, then {second:.4g}",
                "num_targets is the number of targets in the sum, by which training divides it",
            )
        if not is_constant and first and math.isclose(first, second, rel_tol=SAME):
            counts = f"{once.num_targets} and {twice.num_targets}"
            if isinstance(objective, CustomLoss):
                return (
                    f"the loss {name} divides by the number of targets: the losses of {counts} targets sum to"
                    f" {first:.4g}",
                    "return the loss of each target, as reduction='none' does: training takes their mean",
                )
            return (
                f"the objective {name} returned a Loss whose {field} is a mean, not a sum: {first:.4g} for"
                f" {counts} targets",
                f"sum {field} over the targets of the batch: training divides it by num_targets",
            )
    return None


def _no_likelihood(objective: Objective, loss: Loss) -> tuple[str, str] | None:
    """The fault of a loss whose likelihood is 0 for many examples."""
    if float(loss.nll) or not float(loss.total):
        return None
    return (
        f"the objective {objective_name(objective)} returned a Loss whose nll is 0 where total is"
        f" {float(loss.total):.4g}",
        "nll is the loss that is reported and validated: without a likelihood give total.detach()",
    )


def _copy(objective: Any) -> Any:
    """The objective with numbers, lists and dictionaries of its own, in which it may record its calls."""
    copied = copy.copy(objective)
    for name, value in getattr(copied, "__dict__", {}).items():
        if isinstance(value, list | dict | set) and copied is not objective:
            object.__setattr__(copied, name, copy.copy(value))
    return copied


def _losses(
    objective: Objective,
    model: nn.Module,
    examples: Examples,
    device: torch.device,
    batches: list[np.ndarray],
) -> list[Loss]:
    """The losses of some batches of examples."""
    modes = {each: each.training for each in model.modules()}
    try:
        with torch.no_grad(), unchanged_random(device):
            model.eval()
            tried = _copy(objective)
            losses = [tried(model, examples.batch(each, 0).to(device)) for each in batches]
    finally:
        for module, mode in modes.items():
            module.training = mode
    for loss in losses:
        refuse_other_than_loss(loss, objective)
    return losses
