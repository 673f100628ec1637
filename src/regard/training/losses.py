"""Custom losses: functions of logits and labels, which a recipe selects by `[training] loss`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from regard.errors import RecipeError, did_you_mean
from regard.training.objective import Loss, Objective

LossFunction = Callable[
    [Float[Tensor, "targets classes"], Int64[Tensor, " targets"]], Float[Tensor, " targets"]
]
Registered = TypeVar("Registered", bound=LossFunction)

_LOSSES: dict[str, LossFunction] = {}


@runtime_checkable
class LogitsObjective(Protocol):
    """An objective that is a function of logits and labels."""

    def logits(self, model: Any, batch: Any) -> tuple[Tensor, Tensor]:
        """The logits and labels of all targets, without padding."""
        ...


def register_loss(name: str) -> Callable[[Registered], Registered]:
    """Registers a loss under a name, which a recipe can then use: `[training] loss = "NAME"`.

        @register_loss("focal")
        def focal(logits, labels):
            nll = F.cross_entropy(logits, labels, reduction="none")
            return (1 - (-nll).exp()) ** 2 * nll

    The function gets the logits of all targets of a batch, of shape [targets, classes], and their labels, of
    shape [targets], without padding. It returns the loss of each target in the same order. The reported loss
    remains the cross-entropy of the labels in nats, so that runs can be compared. Label smoothing is not
    applied. Registering a name again replaces its loss.

    The loss is registered in this process only: call `regard.train` here. A recipe cannot name a file of
    code, because recipes come with models, and data must not become code.

    Raises:
        RecipeError: the name is empty.
    """
    if not name:
        raise RecipeError("a loss needs a name", 'register_loss("focal")')

    def register(function: Registered) -> Registered:
        _LOSSES[name] = function
        return function

    return register


def chosen_loss(name: str, base: Objective) -> Objective:
    """The objective `base` with the registered loss of this name; `base` itself if the name is empty.

    Raises:
        RecipeError: no such loss is registered, or the task does not predict classes.
    """
    if not name:
        return base
    if name not in _LOSSES:
        known = did_you_mean(name, _LOSSES) if _LOSSES else "none is registered in this process"
        raise RecipeError(
            f"training.loss: no loss is registered as {name!r}",
            f"{known}; register one with regard.training.register_loss before regard.train is called",
        )
    if getattr(base, "weights", None) is not None:
        raise RecipeError(
            f"task.class_weights and training.loss = {name!r} both weight the classes",
            "leave out the one or the other",
        )
    if not isinstance(base, LogitsObjective):
        raise RecipeError(
            f"training.loss = {name!r}: {type(base).__name__} is not a function of logits and labels",
            "leave out training.loss; it is for tasks that predict tokens or classes, without r_drop",
        )
    return CustomLoss(name=name, function=_LOSSES[name], base=base)


@dataclass(frozen=True, kw_only=True)
class CustomLoss:
    """An objective: a registered loss on the logits and labels of `base`."""

    name: str
    function: LossFunction
    base: LogitsObjective

    def __call__(self, model: Any, batch: Any) -> Loss:
        """The loss of a batch; RecipeError if the function does not return one number for each target."""
        logits, labels = self.base.logits(model, batch)
        losses = self.function(logits, labels)
        if not isinstance(losses, Tensor) or losses.shape != labels.shape:
            found = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            raise RecipeError(
                f"the loss {self.name!r} returns {found} for {len(labels)} targets",
                "return one number for each target, as reduction='none' does",
            )
        nll = F.cross_entropy(logits.detach().float(), labels, reduction="sum")
        return Loss(total=losses.sum(), nll=nll, num_targets=labels.numel())
