"""Registered optimisers: functions that make an optimiser, which a recipe selects by name."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from regard.errors import RecipeError, RegardError
from regard.registry import Registry, refuse_not_callable, refuse_other_options
from regard.training.first_steps import FirstSteps
from regard.training.registered_state import is_registered, remember_start, saved_state

Groups = list[dict[str, Any]]
MakeOptimizer = Callable[..., torch.optim.Optimizer | Sequence[torch.optim.Optimizer]]

# options that the groups of weights have already, and the setting that each is
OF_TRAINER = {
    "lr": "schedule.learning_rate",
    "weight_decay": "optimizer.weight_decay",
    "scale": "optimizer.layer_decay",
    "params": None,
    "names": None,
}
SHAPES = {"matrix": (2, 2), "vector": (2,)}  # of the weights of a trial

OPTIMIZERS: Registry[Callable[..., Any]] = Registry(
    "optimiser",
    {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW},
    how="register_optimizer of regard.training",
)


def register_optimizer(name: str) -> Callable[[MakeOptimizer], MakeOptimizer]:
    """Registers an optimiser under a name, for `kind` in `[training.optimizer]` of a recipe.

        @register_optimizer("sgd")
        def sgd(groups, *, momentum=0.9):
            return torch.optim.SGD(groups, momentum=momentum)

    The function gets the groups of weights that optimisers of PyTorch take: dictionaries with `params`, their
    `names`, `weight_decay` (0 for biases and norms) and `scale`. `[training.optimizer] options` are its other
    arguments. It returns a `torch.optim.Optimizer`, or several, each for some of the weights, such as Muon
    for the matrices of layers and AdamW for the rest. Before each update the trainer sets `lr` of a group to
    the rate of the schedule times its `scale`.

    A checkpoint has the state of each weight and the numbers of each group: a resumed run ends in the same
    bits if the optimiser keeps nothing elsewhere. Registering a name again replaces its optimiser.

    The optimiser is registered in the process that calls this: call `regard.train` there, or register it in
    an installed package (see docs/extending.md).

    Raises:
        UserError: the name is empty or one of regard's own, or what is registered cannot be called.
    """
    register = OPTIMIZERS.register(name)

    def add(make: MakeOptimizer) -> MakeOptimizer:
        refuse_not_callable(make, f"the optimiser {name!r}")
        return register(make)

    return add


def is_own(optimizer: torch.optim.Optimizer) -> bool:
    """True for an optimiser that regard itself made, not one of the same class that was registered."""
    return type(optimizer) in OPTIMIZERS.own.values() and not is_registered(optimizer)


def refuse_unknown_optimizer(name: str, options: Mapping[str, Any]) -> None:
    """Raise a RecipeError if no optimiser has this name, or if it does not have these options."""
    if name in OPTIMIZERS.own:
        return
    if name not in OPTIMIZERS:
        raise RecipeError(
            f"training.optimizer.kind: no optimiser is registered as {name!r}", OPTIMIZERS.hint(name)
        )
    for option, setting in OF_TRAINER.items():
        if option in options:
            raise RecipeError(
                f"training.optimizer.options.{option} has no effect: groups of weights have it",
                f"set training.{setting}" if setting else "leave it out",
            )
    refuse_other_options(
        OPTIMIZERS[name],
        f"the optimiser {name!r}",
        ([],),
        options,
        setting="training.optimizer.options",
        not_options=OF_TRAINER,
        trial=lambda: OPTIMIZERS[name](_small_groups(), **options),
        kind=RecipeError,
    )


def _small_groups() -> Groups:
    """Groups of weights as a model has them, for a trial."""
    return [
        {"params": [nn.Parameter(torch.zeros(shape))], "names": [kind], "weight_decay": 0.0, "scale": 1.0}
        for kind, shape in SHAPES.items()
    ]


def registered_optimizer(name: str, groups: Groups, options: Mapping[str, Any]) -> torch.optim.Optimizer:
    """The optimiser that is registered under this name, of these groups of weights.

    Raises:
        RecipeError: there is none, or it does not have these options; it is not an optimiser of PyTorch, or
            needs what the trainer does not do; or its groups do not have each weight exactly once.
    """
    refuse_unknown_optimizer(name, options)
    given = [
        _Weight(*each, group)
        for group in groups
        for each in zip(group["names"], group["params"], strict=True)
    ]
    made = _made(name, groups, options)
    parts = [*made] if isinstance(made, Sequence) else [made]
    for part in parts:
        _refuse_unusable(name, part)
    _refuse_other_weights(name, given, parts)
    for part in parts:
        for group in part.param_groups:
            group.setdefault("scale", 1.0)
    optimizer = parts[0] if len(parts) == 1 else JoinedOptimizers(parts)
    remember_start(optimizer)
    unchecked = [{each.name: each.tensor for each in given}]

    def check(*_: object) -> None:
        """After the first update, so that what cannot be saved is noticed before much is lost."""
        if unchecked:
            saved_state(optimizer, unchecked.pop())

    optimizer.register_step_post_hook(check)
    first = FirstSteps(name, [each.tensor for each in given])
    optimizer.register_step_pre_hook(first.before)
    optimizer.register_step_post_hook(first.after)
    return optimizer


def _made(name: str, groups: Groups, options: Mapping[str, Any]) -> Any:
    try:
        return OPTIMIZERS[name]([dict(group) for group in groups], **options)
    except RegardError:
        raise
    except Exception as error:
        raise RecipeError(
            f"the optimiser {name!r} cannot be made: {type(error).__name__}: {error}",
            "change [training.optimizer] options, or what is registered under this name",
        ) from error


class _Weight(NamedTuple):
    name: str
    tensor: torch.Tensor
    group: dict[str, Any]


def _refuse_unusable(name: str, made: object) -> None:
    """Raise a RecipeError for what is not an optimiser, or needs more than `step()` for an update."""
    if not isinstance(made, torch.optim.Optimizer):
        raise RecipeError(
            f"the optimiser {name!r} is {type(made).__name__}, not a torch.optim.Optimizer",
            "return an optimiser, or a list of several",
        )
    closure = inspect.signature(made.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise RecipeError(
            f"the optimiser {name!r} computes the loss again in an update, which training does not",
            "register one whose step() needs no closure",
        )
    if any(group.get("maximize") for group in made.param_groups):
        raise RecipeError(
            f"the optimiser {name!r} has maximize = True, which makes the loss larger",
            "leave maximize out, and give a loss that falls as predictions improve",
        )
    base = torch.optim.Optimizer
    for method in ("state_dict", "__getstate__"):
        if getattr(type(made), method, None) is not getattr(base, method, None):
            raise RecipeError(
                f"the optimiser {name!r} has a {method} of its own, which checkpoints do not call",
                "keep its state in the groups and in the state of weights, as those of torch.optim do",
            )
    switches = [each for each in ("train", "eval") if callable(getattr(made, each, None))]
    if len(switches) == 2:
        raise RecipeError(
            f"the optimiser {name!r} has the methods {' and '.join(switches)}, which training does not call",
            "register one without; training.moving_average averages the weights",
        )


def _refuse_other_weights(
    name: str, given: Sequence[_Weight], parts: Sequence[torch.optim.Optimizer]
) -> None:
    """Raise a RecipeError unless the optimisers have each weight once, with what the groups say of it."""
    own = [
        (weight, part, group) for part in parts for group in part.param_groups for weight in group["params"]
    ]
    if len(own) > len(given):
        raise RecipeError(
            f"the optimiser {name!r} has {len(own)} weights, and {len(given)} are trained",
            "give each weight of the groups to one optimiser",
        )
    found = {id(weight): (part, group) for weight, part, group in own}
    for each in given:
        if id(each.tensor) not in found:
            raise RecipeError(
                f"the optimiser {name!r} does not have the weight {each.name}, which is trained",
                "training.freeze names weights that are not trained",
            )
        part, group = found[id(each.tensor)]
        has_decay = "weight_decay" in part.defaults and group.get("weight_decay")
        if each.group["weight_decay"] and not has_decay:
            raise RecipeError(
                f"training.optimizer.weight_decay has no effect on {each.name} in the optimiser {name!r}",
                "leave it out, or make groups and defaults of the optimiser have weight_decay",
            )
        if each.group["scale"] != 1 and "scale" not in group:
            raise RecipeError(
                f"training.optimizer.layer_decay has no effect on {each.name} in the optimiser {name!r}",
                "copy `scale` of the groups that the function gets",
            )


class JoinedOptimizers(torch.optim.Optimizer):
    """Several optimisers as one, each of its own weights; groups and state are theirs."""

    def __init__(self, parts: Sequence[torch.optim.Optimizer]) -> None:
        self.joined_parts = tuple(parts)
        is_fused = any(part.defaults.get("fused") for part in parts)
        super().__init__([group for part in parts for group in part.param_groups], {"fused": is_fused})
        for part in parts:
            self.state.update(part.state)
            part.state = self.state

    def step(self, closure: Any = None) -> Any:
        """An update by each of the optimisers; `closure` is not used."""
        for part in self.joined_parts:
            part.step()
