"""R-Drop: two passes with different dropout masks should predict the same (Liang et al. 2021)."""

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import nn

from regard.errors import RecipeError
from regard.models.config import ModelConfig
from regard.training.losses import LossOfLogits
from regard.training.objective import Loss, Objective


@dataclass(frozen=True, kw_only=True)
class RDrop:
    """An objective: that of the labels, `base`, in two passes, and how far their predictions differ.

    Liang et al. 2021, equation 4. It is half of the paper's sum, comparable with the loss of one pass: the
    mean of both losses plus `weight` / 2 times the mean of the two Kullback-Leibler divergences.
    """

    base: LossOfLogits
    weight: float = 5.0

    def __call__(self, model: Any, batch: Any) -> Loss:
        logits, labels = self.base.logits(model, batch)
        other_logits, _ = self.base.logits(model, batch)
        first, second = self.base.of_logits(logits, labels), self.base.of_logits(other_logits, labels)
        own, other = F.log_softmax(logits, dim=-1), F.log_softmax(other_logits, dim=-1)
        # KL(p||q) + KL(q||p) = sum (p - q)(log p - log q)
        divergence = ((own.exp() - other.exp()) * (own - other)).sum() / 2
        return Loss(
            total=(first.total + second.total) / 2 + self.weight / 2 * divergence,
            nll=(first.nll + second.nll) / 2,
            num_targets=first.num_targets,
        )


def with_r_drop(base: Objective, weight: float) -> Objective:
    """The objective `base` with R-Drop; `base` itself if the weight is 0.

    Raises:
        RecipeError: the task does not predict tokens or classes.
    """
    if not weight:
        return base
    if not isinstance(base, LossOfLogits):
        raise RecipeError(
            f"training.r_drop: {type(base).__name__} is not a function of logits and labels",
            "leave it out; it is for tasks that predict tokens or classes",
        )
    return RDrop(base=base, weight=weight)


def refuse_without_dropout(model: nn.Module, weight: float) -> None:
    """Raise a RecipeError if two passes of a model of regard are equal; of others it is not known."""
    config = getattr(model, "config", None)
    if not isinstance(config, ModelConfig) or has_dropout(config) or any(map(_drops, model.modules())):
        return
    raise RecipeError(
        f"training.r_drop = {weight} has no effect: the model has no dropout",
        "set its dropout above 0, or leave out r_drop, which doubles the cost of an update",
    )


def has_dropout(config: ModelConfig) -> bool:
    """True if one of the dropouts of a configuration is above 0."""
    return any(value for name, value in vars(config).items() if name.endswith("dropout"))


def _drops(module: nn.Module) -> bool:
    return isinstance(module, nn.Dropout) and module.p > 0
