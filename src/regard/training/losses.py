"""Custom losses: functions of logits and labels that a recipe names in `[training] loss`."""

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
class OfLogits(Protocol):
    """An objective that is computed of logits and labels, both of the targets that count."""

    def logits(self, model: Any, batch: Any) -> tuple[Tensor, Tensor]: ...


def register_loss(name: str) -> Callable[[Registered], Registered]:
    """Make a loss known by a name, by which a recipe asks for it: `[training] loss = "NAME"`.

        @register_loss("focal")
        def focal(logits, labels):
            nll = F.cross_entropy(logits, labels, reduction="none")
            return (1 - (-nll).exp()) ** 2 * nll

    The function is given the logits of all targets of a batch that count, of shape [targets, classes], and
    their labels, of shape [targets]; it returns the loss of each target, in the same order. Padding is left
    out already. What is reported as the loss stays the cross-entropy of the labels, in nats, so that runs can
    be compared. Label smoothing is the function's own affair. A name that is taken is taken over.

    The name is known in the process that registers it: call `regard.train` there. A recipe cannot name a file
    of code, because recipes come with models, and data must not become code.

    Raises:
        RecipeError: the name is empty.
    """
    if not name:
        raise RecipeError("a loss needs a name", 'register_loss("focal")')

    def register(function: Registered) -> Registered:
        _LOSSES[name] = function
        return function

    return register


def chosen_loss(name: str, usual: Objective) -> Objective:
    """The objective with the loss of this name in place of its own; the `usual` one where the name is empty.

    Raises:
        RecipeError: no such loss is registered, or the task does not predict classes.
    """
    if not name:
        return usual
    if name not in _LOSSES:
        known = did_you_mean(name, _LOSSES) if _LOSSES else "none is registered in this process"
        raise RecipeError(
            f"training.loss: no loss is registered as {name!r}",
            f"{known}; register_loss of regard.training makes one known before regard.train is called",
        )
    if getattr(usual, "weights", None) is not None:
        raise RecipeError(
            f"task.class_weights and training.loss = {name!r} both weight the classes",
            "leave out the one or the other",
        )
    if not isinstance(usual, OfLogits):
        raise RecipeError(
            f"training.loss = {name!r}: {type(usual).__name__} is not computed of logits and labels",
            "leave training.loss out; it is for tasks that predict tokens or classes, without r_drop",
        )
    return CustomLoss(name=name, function=_LOSSES[name], base=usual)


@dataclass(frozen=True, kw_only=True)
class CustomLoss:
    """A registered loss of the logits and labels of `base`."""

    name: str
    function: LossFunction
    base: OfLogits

    def __call__(self, model: Any, batch: Any) -> Loss:
        """Raises RecipeError where the function does not give a loss for each target."""
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
