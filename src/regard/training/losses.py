"""Custom losses: functions of logits and labels, which a recipe selects by `[training] loss`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RecipeError, UserError
from regard.registry import (
    Registry,
    naming_failures,
    refuse_not_callable,
    refuse_other_arguments,
    refuse_other_options,
)
from regard.training.objective import Loss, Objective

LossFunction = Callable[
    ..., Float[Tensor, " targets"]
]  # of logits [targets, classes] and labels [targets], and of options

ARGUMENTS = ("logits", "labels")
TRIED = torch.zeros(2, 2), torch.zeros(2, dtype=torch.int64)  # such arguments
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})
LOSSES: Registry[LossFunction] = Registry("loss", how="register_loss of regard.training")


@runtime_checkable
class LogitsObjective(Protocol):
    """An objective that is a function of logits and labels."""

    def logits(self, model: Any, batch: Any) -> tuple[Tensor, Tensor]:
        """The logits and labels of all targets, without padding."""
        ...


@runtime_checkable
class LossOfLogits(LogitsObjective, Protocol):
    """The same, in two steps: its logits and labels can be used for another loss too."""

    def of_logits(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss from what `logits` returns."""
        ...


def register_loss(name: str) -> Callable[[LossFunction], LossFunction]:
    """Registers a loss under a name, which a recipe can then use: `[training] loss = "NAME"`.

        @register_loss("focal")
        def focal(logits, labels):
            nll = F.cross_entropy(logits, labels, reduction="none")
            return (1 - (-nll).exp()) ** 2 * nll

    The function gets the logits of all targets of a batch, of shape [targets, classes], and their labels, of
    shape [targets], without padding. It returns the loss of each target in the same order. The reported loss
    remains the cross-entropy of the labels in nats, so that runs can be compared. Label smoothing is not
    applied. Other arguments of the function are what `[training.loss_options]` sets; they have defaults.
    Registering a name again replaces its loss.

    The loss is registered in the process that calls this: call `regard.train` there, or register it in an
    installed package (see docs/extending.md).

    Raises:
        UserError: the name is empty; or the loss is a class, cannot be called with logits and labels, or has
            parameters, which nothing would train.
    """
    register = LOSSES.register(name)

    def add(loss: LossFunction) -> LossFunction:
        refuse_not_callable(loss, f"the loss {name!r}")
        if isinstance(loss, type):
            raise UserError(f"the loss {name!r} is a class", f"register an object: {loss.__name__}(...)")
        named = loss.named_parameters() if isinstance(loss, nn.Module) else ()
        if trained := [each for each, parameter in named if parameter.requires_grad]:
            raise UserError(
                f"the loss {name!r} has parameters, which would not be trained: {', '.join(trained)}",
                "freeze them, or make them parameters of the model",
            )
        refuse_other_arguments(_called(loss), f"the loss {name!r}", ARGUMENTS)
        return register(loss)

    return add


def _called(loss: Any) -> Any:
    return loss.forward if isinstance(loss, nn.Module) else loss


def refuse_unknown_loss(name: str, options: Mapping[str, Any] = NO_OPTIONS) -> None:
    """Raise a RecipeError if no loss is registered under this name, or if it does not have these options.

    An empty name is that of the task's own.
    """
    if not name:
        return
    if name not in LOSSES:
        raise RecipeError(
            f"training.loss: no loss is registered as {name!r}",
            f'{LOSSES.hint(name)}; the loss of the task itself is the empty text, training.loss = ""',
        )
    if options:
        loss = LOSSES[name]
        refuse_other_options(
            _called(loss),
            f"the loss {name!r}",
            ARGUMENTS,
            options,
            setting="training.loss_options",
            trial=lambda: loss(*TRIED, **options),
            kind=RecipeError,
        )


def chosen_loss(name: str, base: Objective, options: Mapping[str, Any] = NO_OPTIONS) -> Objective:
    """The objective `base` with the registered loss of this name; `base` itself if the name is empty.

    Raises:
        RecipeError: no such loss is registered, it does not have these options, or the task does not predict
            classes.
    """
    if not name:
        return base
    refuse_unknown_loss(name, options)
    if getattr(base, "weights", None) is not None:
        raise RecipeError(
            f"task.class_weights and training.loss = {name!r} both weight the classes",
            "leave out the one or the other",
        )
    if not isinstance(base, LogitsObjective):
        raise RecipeError(
            f"training.loss = {name!r}: {type(base).__name__} is not a function of logits and labels",
            "leave out training.loss; it is for tasks that predict tokens or classes",
        )
    return CustomLoss(name=name, function=LOSSES[name], base=base, options=options)


@dataclass(frozen=True, kw_only=True)
class CustomLoss:
    """An objective: a registered loss on the logits and labels of `base`."""

    name: str
    function: LossFunction
    base: LogitsObjective
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __call__(self, model: Any, batch: Any) -> Loss:
        """The loss of a batch; RecipeError if the function fails or gives another count of numbers."""
        return self.of_logits(*self.logits(model, batch))

    def logits(self, model: Any, batch: Any) -> tuple[Tensor, Tensor]:
        """The logits and labels of all targets, without padding."""
        return self.base.logits(model, batch)

    def of_logits(self, logits: Tensor, labels: Tensor) -> Loss:
        """The loss from what `logits` returns."""
        what, hint = f"the loss {self.name!r}", "it gets [targets, classes] and [targets]"
        with naming_failures(what, self.function, hint, kind=RecipeError):
            losses = self.function(logits, labels, **self.options)
        if not isinstance(losses, Tensor) or losses.shape != labels.shape:
            found = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            raise RecipeError(
                f"the loss {self.name!r} returns {found} for {len(labels)} targets",
                "return one number for each target, as reduction='none' does",
            )
        nll = F.cross_entropy(logits.detach().float(), labels, reduction="sum")
        return Loss(total=losses.sum(), nll=nll, num_targets=labels.numel())
