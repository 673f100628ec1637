"""Knowledge distillation (Hinton et al. 2015; in translation word by word: Kim and Rush 2016)."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RecipeError
from regard.recipe import check_types
from regard.training.losses import LossOfLogits
from regard.training.objective import Loss, Objective


@dataclass(frozen=True, kw_only=True)
class DistillationSettings:
    """A teacher: a trained model whose probabilities are learned besides the labels.

    The loss is (1 - `weight`) times the loss of the labels, plus `weight` times `temperature` squared times
    the Kullback-Leibler divergence of the student's probabilities from the teacher's. Both are those of
    logits divided by `temperature`. The teacher is of the same kind, with the same tokenisers and classes.
    """

    teacher: str  # a model folder, run folder or Hugging Face folder, relative to the recipe's folder
    weight: float = 0.5  # of the teacher's probabilities; 1: labels are not learned
    temperature: float = 1.0  # above 1: improbable tokens or classes count more

    def __post_init__(self) -> None:
        check_types(self)
        if not 0 < self.weight <= 1:
            raise RecipeError(
                f"weight = {self.weight} of a distillation is out of range",
                "above 0 and at most 1; 0.5 is usual",
            )
        if not self.temperature > 0:
            raise RecipeError(
                f"temperature = {self.temperature} of a distillation is not above 0", "1 to 4 is usual"
            )


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """An objective: that of the labels, `base`, and the probabilities of `teacher` at the same places.

    The reported loss remains the negative log-likelihood of the labels.
    """

    base: LossOfLogits
    teacher: nn.Module  # in evaluation mode
    weight: float
    temperature: float

    def __call__(self, model: Any, batch: Any) -> Loss:
        logits, labels = self.base.logits(model, batch)
        with torch.no_grad():
            wanted, _ = self.base.logits(self.teacher, batch)
        loss = self.base.of_logits(logits, labels)
        divergence = _divergence(logits.float() / self.temperature, wanted.float() / self.temperature)
        soft = self.temperature**2 * divergence
        total = soft if self.weight == 1 else (1 - self.weight) * loss.total + self.weight * soft
        return Loss(total=total, nll=loss.nll, num_targets=loss.num_targets)


def distilled(base: Objective, teacher: nn.Module, settings: DistillationSettings) -> Distillation:
    """The objective `base` with a teacher.

    Raises:
        RecipeError: the task does not predict tokens or classes.
    """
    if not isinstance(base, LossOfLogits):
        raise RecipeError(
            f"training.distillation: {type(base).__name__} is not a function of logits and labels",
            "leave it out; it is for tasks that predict tokens or classes",
        )
    teacher.eval().requires_grad_(False)
    return Distillation(base=base, teacher=teacher, weight=settings.weight, temperature=settings.temperature)


def _divergence(
    logits: Float[Tensor, "targets classes"], wanted: Float[Tensor, "targets classes"]
) -> Float[Tensor, ""]:
    """The summed Kullback-Leibler divergence KL(teacher || student) in nats."""
    own, other = F.log_softmax(logits, dim=-1), F.log_softmax(wanted, dim=-1)
    return F.kl_div(own, other, reduction="sum", log_target=True)
