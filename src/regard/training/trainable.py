"""Selects the trained parameters: all weights, except frozen ones and those replaced by adapters."""

from collections.abc import Iterable, Sequence

from torch import nn

from regard.errors import RecipeError, did_you_mean
from regard.models.adapters import AdapterSettings, add_lora


def choose_trainable(
    model: nn.Module,
    *,
    freeze: Sequence[str] = (),
    adapter: AdapterSettings | None = None,
    fresh: Iterable[str] = (),
    seed: int = 0,
) -> int:
    """Freezes parameters of `model` and adds adapters; returns the number of trained parameters.

    `fresh` are the names of randomly initialised weights, which are trained in full besides adapters.

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
    for prefix in freeze:
        _freeze(model, prefix)
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    if not trained:
        raise RecipeError("training.freeze leaves nothing to train", "remove at least the head from it")
    return trained


def _freeze(model: nn.Module, prefix: str) -> None:
    """Freezes the parameters below `prefix`; a tied weight is matched by any of its names."""
    named = dict(model.named_parameters(remove_duplicate=False))
    below = [parameter for name, parameter in named.items() if f"{name}.".startswith(f"{prefix}.")]
    if not below:
        known = {".".join(name.split(".")[:i]) for name in named for i in range(1, name.count(".") + 2)}
        raise RecipeError(f"training.freeze: nothing is called {prefix!r}", did_you_mean(prefix, known))
    for parameter in below:
        parameter.requires_grad_(False)
