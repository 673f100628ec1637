"""How positions enter a stack: added to embeddings, to the scores of attention, or as a rotation.

What a registered encoding gives is checked in each call.
"""

from typing import Any, cast

from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.positions import RotaryPositions
from regard.models.config import TransformerConfig
from regard.models.registered import (
    POSITION_ARGUMENTS,
    POSITION_KINDS,
    POSITIONS,
    Where,
    called_part,
    marked,
    options_of,
    wrong_positions,
)
from regard.registry import refuse_other_arguments


def input_positions(config: TransformerConfig) -> nn.Module | None:
    """The positions that are added to embeddings, if they are given in this way."""
    return _positions(config, "input", True)


def position_bias(config: TransformerConfig, *, bidirectional: bool) -> nn.Module | None:
    """The bias that a stack adds to the scores of its self-attentions, for positions given in this way."""
    return _positions(config, "scores", bidirectional)


def rotary_positions(config: TransformerConfig) -> RotaryPositions | None:
    """The rotation of queries and keys in all self-attentions of a stack, for positions given in this way."""
    return cast(RotaryPositions | None, _positions(config, "queries_and_keys", True))


def _positions(config: TransformerConfig, where: Where, bidirectional: bool) -> nn.Module | None:
    encoding = POSITIONS[config.positions]
    if encoding.where != where:
        return None
    options = options_of(config, "positions")
    made = called_part(POSITIONS, config.positions, encoding.make, config, bidirectional, **options)
    if not isinstance(made, POSITION_KINDS[where]):
        raise wrong_positions(config.positions, where)
    is_own = config.positions in POSITIONS.own
    if not is_own:
        what, arguments = f"the positional encoding {config.positions!r}", POSITION_ARGUMENTS[where]
        if getattr(made.forward, "__func__", None) is nn.Module.forward:
            raise ConfigError(
                f"{what} has no forward", f"define forward(self, {', '.join(arguments)}) in its class"
            )
        refuse_other_arguments(made.forward, f"{what}: forward", arguments, kind=ConfigError)
    if where == "scores" and not is_own:
        named = config.positions, config.num_heads
        made.registered_bias = named  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
    return marked(made, f"the positional encoding {config.positions!r}", is_own=is_own)


def added_positions(
    module: Any, start: int, length: int, width: int
) -> Float[Tensor, "*ones {length} {width}"]:
    """The vectors of the positions from `start`; those of a registered encoding are checked.

    Raises:
        ConfigError: they are not one vector for each position.
    """
    added = module(start, length)
    return _of_shape(module, added, [length, width], "[length, d_model]")


def positions_at(
    module: Any, positions: Int64[Tensor, "batch len"], width: int
) -> Float[Tensor, "batch len width"]:
    """The vectors of these positions; a registered encoding may lack the method for them."""
    if not hasattr(module, "at"):
        raise ConfigError(
            f"{type(module).__name__} gives no positions for packed documents: it has no `at`",
            "define at(positions) -> [batch, length, d_model], or set task.apart = false",
        )
    return _of_shape(module, module.at(positions), [*positions.shape, width], "[batch, length, d_model]")


def _of_shape(module: Any, added: Any, wanted: list[int], named: str) -> Tensor:
    """What a module adds to embeddings; that of a registered one must not be broadcast over positions."""
    if not getattr(module, "initialises_itself", False):
        return added
    shape = [*added.shape] if isinstance(added, Tensor) else None
    if shape is None or shape[-len(wanted) :] != wanted or any(size != 1 for size in shape[: -len(wanted)]):
        what = type(added).__name__ if shape is None else f"a tensor of shape {shape}"
        raise ConfigError(
            f"the positional encoding {type(module).__name__} gives {what}, not {named}, here {wanted}",
            "give a vector for each position",
        )
    return added


def added_bias(
    module: nn.Module | None, queries: int, keys: int
) -> Float[Tensor, "1 some_heads {queries} {keys}"] | None:
    """The bias of the scores of the last `queries` of `keys` positions; that of a registered one is checked.

    Raises:
        ConfigError: it does not broadcast to the scores.
    """
    if module is None:
        return None
    bias, named = module(queries, keys), getattr(module, "registered_bias", None)
    return bias if named is None else _checked_bias(named[0], (1, named[1], queries, keys), bias)


def _checked_bias(
    name: str, wanted: tuple[int, int, int, int], bias: Any
) -> Float[Tensor, "1 some_heads queries keys"]:
    """The bias of a registered encoding with all four axes."""
    shape = tuple(bias.shape) if isinstance(bias, Tensor) else None
    if (
        shape is None
        or len(shape) > 4
        or any(have not in (1, want) for have, want in zip(reversed(shape), reversed(wanted), strict=False))
    ):
        what = f"has the shape {[*shape]}" if shape is not None else f"is {type(bias).__name__}, not a tensor"
        raise ConfigError(
            f"the bias of the positional encoding {name!r} {what}, which does not fit"
            f" {wanted[2]} queries and {wanted[3]} keys",
            f"give [1, {wanted[1]}, queries, keys], or 1 for an axis that all share; here {[*wanted]}",
        )
    bias = bias[(None,) * (4 - len(shape))]
    return bias.expand(-1, -1, *wanted[2:])
