"""Selects the trained parameters: all weights, except frozen ones and those replaced by adapters."""

import difflib
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from torch import nn

from regard.errors import RecipeError
from regard.models.adapters import AdapterSettings, add_lora

WILDCARDS = re.compile(r"[*?\[\]!]")  # of the patterns of names


def trained_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """The trained parameters; a tied one once, under its first name."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def choose_trainable(
    model: nn.Module,
    *,
    freeze: Sequence[str] = (),
    adapter: AdapterSettings | None = None,
    fresh: Iterable[str] = (),
    seed: int = 0,
) -> int:
    """Freezes parameters of `model` and adds adapters; returns the number of trained parameters.

    `freeze` are names of modules or weights, or patterns of them. `fresh` are names of weights that are new,
    as a whole or in part, which are trained in full besides adapters.

    Raises:
        RecipeError: `freeze` matches no parameter, or nothing is left to train.
        ConfigError: the adapters' targets do not exist.
    """
    if adapter is not None:
        add_lora(
            model,
            rank=adapter.rank,
            alpha=adapter.alpha,
            targets=adapter.targets,
            dropout=adapter.dropout,
            seed=seed,
        )
        for name in fresh:
            model.get_parameter(name).requires_grad_(True)
    for pattern in freeze:
        _freeze(model, pattern)
    trained = sum(parameter.numel() for _, parameter in trained_parameters(model))
    if not trained:
        raise RecipeError("training.freeze leaves nothing to train", "remove at least the head from it")
    return trained


def _freeze(model: nn.Module, pattern: str) -> None:
    """Freezes the parameters that `pattern` matches, and those below modules that it matches.

    `*`, `?` and `[01]` are those of file names; `*` matches dots too. A tied weight is matched by any of its
    names.
    """
    named = dict(model.named_parameters(remove_duplicate=False))
    matching = {name for names in map(_with_modules, named) for name in names if fnmatchcase(name, pattern)}
    below = [parameter for name, parameter in named.items() if not matching.isdisjoint(_with_modules(name))]
    if not below:
        raise RecipeError(f"training.freeze: nothing is called {pattern!r}", _nearest(named, pattern))
    for parameter in below:
        parameter.requires_grad_(False)


def _nearest(names: Iterable[str], pattern: str) -> str:
    """The hint for a pattern that matches nothing: a near name, or a pattern for a near part of names."""
    hints = {part: f"*.{part}" for name in names for part in name.split(".") if not part.isdigit()}
    hints |= {each: each for name in names for each in _with_modules(name)}
    plain = WILDCARDS.sub("", pattern).strip(".")
    if near := difflib.get_close_matches(plain, sorted(hints), cutoff=0.5):
        return f"did you mean {hints[near[0]]!r}?"
    top = sorted({name.partition(".")[0] for name in names})
    return f"known: {', '.join(top)}, and what is below them"


def _with_modules(name: str) -> list[str]:
    """The name of a parameter, and the names of the modules that it is in."""
    return [*itertools.accumulate(name.split("."), "{}.{}".format)]
