"""Custom losses: functions of logits and labels that a recipe names in `[training] loss`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from regard.errors import RecipeError
from regard.registry import Registry
from regard.training.objective import Loss, Objective

LossFunction = Callable[
    [Float[Tensor, "targets classes"], Int64[Tensor, " targets"]], Float[Tensor, " targets"]
]

LOSSES: Registry[LossFunction] = Registry("loss", how="register_loss of regard.training")


@runtime_checkable
class OfLogits(Protocol):
    """An objective that is computed of logits and labels, both of the targets that count."""

    def logits(self, model: Any, batch: Any) -> tuple[Tensor, Tensor]: ...


def register_loss(name: str) -> Callable[[LossFunction], LossFunction]:
    """Make a loss known by a name, by which a recipe asks for it: `[training] loss = "NAME"`.

        @register_loss("focal")
        def focal(logits, labels):
            nll = F.cross_entropy(logits, labels, reduction="none")
            return (1 - (-nll).exp()) ** 2 * nll

    The function is given the logits of all targets of a batch that count, of shape [targets, classes], and
    their labels, of shape [targets]; it returns the loss of each target, in the same order. Padding is left
    out already. What is reported as the loss stays the cross-entropy of the labels, in nats, so that runs can
    be compared. Label smoothing is the function's own affair. A name that is taken is taken over.

    The name is known in the process that registers it: call `regard.train` there, or register it in an
    installed package (see docs/extending.md).

    Raises:
        UserError: the name is empty.
    """
    return LOSSES.register(name)


def chosen_loss(name: str, usual: Objective) -> Objective:
    """The objective with the loss of this name in place of its own; the `usual` one where the name is empty.

    Raises:
        RecipeError: no such loss is registered, or the task does not predict classes.
    """
    if not name:
        return usual
    if name not in LOSSES:
        raise RecipeError(f"training.loss: no loss is registered as {name!r}", LOSSES.hint(name))
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
    return CustomLoss(name=name, function=LOSSES[name], base=usual)


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
