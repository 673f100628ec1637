"""Trials before training: is the loss of an objective a sum over its targets, are outputs logits?"""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
from regard.models.probabilities import are_probabilities, probabilities_error
from regard.models.restored import restored
from regard.training.gradients import objective_name
from regard.training.losses import CustomLoss, LogitsObjective
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


def refuse_model_of_probabilities(
    objective: Objective,
    distributed: DistributedModel,
    examples: Examples,
    device: torch.device,
    *,
    training: bool = True,
) -> None:
    """Raise a ConfigError, in all processes, if a model of yours gives probabilities in place of logits.

    Only where an objective of regard takes them for logits: another one may take their logarithms. The first
    process evaluates the model without gradients, in the mode of training or in that of evaluation;
    afterwards its mode, its buffers and the generators of random numbers are as they were. What fails in the
    trial is not judged.
    """
    base: Any = objective
    while (is_regards := type(base).__module__.startswith("regard.")) and hasattr(base, "base"):
        base = base.base
    is_tried = is_regards and isinstance(base, LogitsObjective)
    if not is_tried or type(distributed.model).__module__.startswith("regard.") or not len(examples):
        return
    if isinstance(examples, ProcessShare):
        examples = examples.examples
    trial = partial(_gives_probabilities, base, examples=examples, device=device)

    def are_given(training: bool) -> bool:
        return distributed.group.broadcast(distributed.on_first(partial(trial, training=training)))

    if are_given(training):
        mode = "" if training or are_given(True) else " in evaluation"
        raise probabilities_error(f"{type(distributed.model).__name__}{mode}")


def _gives_probabilities(
    objective: LogitsObjective, model: nn.Module, *, examples: Examples, device: torch.device, training: bool
) -> bool:
    with suppress(Exception), _evaluated(model, device, training=training):
        batch = examples.batch(np.arange(min(MANY, len(examples))), 0)
        return are_probabilities(objective.logits(model, batch.to(device))[0])
    return False


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
    with _evaluated(model, device):
        tried = _copy(objective)
        return [tried(model, examples.batch(each, 0).to(device)) for each in batches]


@contextmanager
def _evaluated(model: nn.Module, device: torch.device, *, training: bool = False) -> Iterator[None]:
    """A context without gradients, in a mode of the model; then mode, buffers, generators are as before."""
    with torch.no_grad(), unchanged_random(device), restored(model):
        model.train(training)
        yield
