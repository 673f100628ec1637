"""A trial of an objective that is not regard's own: is its loss a sum over the targets, or a mean?"""

import copy
import math
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.data.examples import Examples
from regard.errors import UserError
from regard.training.gradients import objective_name, refuse_other_than_loss
from regard.training.objective import Loss, Objective
from regard.training.random_state import unchanged_random

SAME = 1e-3  # largest difference of equal losses, as a share of them


def refuse_mean(objective: Objective, model: nn.Module, examples: Examples) -> None:
    """Raise a UserError if the loss of a batch does not grow when all of its examples are in it twice.

    Objectives of regard are not tried, nor what fails in the trial, or counts no target for each example. The
    model is evaluated without gradients; afterwards its mode and the generators of random numbers are as they
    were. A copy of the objective is called.
    """
    if _is_own(objective) or not len(examples):
        return
    losses: list[Loss] = []
    with suppress(Exception):
        losses = _losses(objective, model, examples)
    if len(losses) < 2 or losses[1].num_targets != 2 * losses[0].num_targets:
        return
    for field in ("total", "nll"):
        once, twice = (float(getattr(each, field)) for each in losses)
        if once and math.isclose(once, twice, rel_tol=SAME):
            counts = " and ".join(str(each.num_targets) for each in losses)
            raise UserError(
                f"the objective {objective_name(objective)} returned a Loss whose {field} is a mean, not a"
                f" sum: {once:.4g} for {counts} targets",
                f"sum {field} over the targets of the batch: training divides it by num_targets",
            )


def _is_own(objective: Any) -> bool:
    while (own := type(objective).__module__.startswith("regard.")) and hasattr(objective, "base"):
        objective = objective.base
    return own


def _copy(objective: Any) -> Any:
    """The objective with numbers, lists and dictionaries of its own, in which it may record its calls."""
    copied = copy.copy(objective)
    for name, value in getattr(copied, "__dict__", {}).items():
        if isinstance(value, list | dict | set) and copied is not objective:
            object.__setattr__(copied, name, copy.copy(value))
    return copied


def _losses(objective: Objective, model: nn.Module, examples: Examples) -> list[Loss]:
    """The losses of some examples, and of the same examples twice."""
    device = next(model.parameters()).device
    modes = {each: each.training for each in model.modules()}
    some = np.arange(min(2, len(examples)))
    try:
        with torch.no_grad(), unchanged_random(device):
            model.eval()
            batches = (examples.batch(each, 0) for each in (some, np.concatenate([some, some])))
            tried = _copy(objective)
            losses = [tried(model, batch.to(device)) for batch in batches]
    finally:
        for module, mode in modes.items():
            module.training = mode
    for loss in losses:
        refuse_other_than_loss(loss, objective)
    return losses
