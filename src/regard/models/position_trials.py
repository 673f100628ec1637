"""Trials of registered positional encodings: do they begin at their start, and tell positions apart?"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.masks import causal_mask
from regard.models.positions import added_bias, added_positions, positions_at
from regard.models.registered import ATTENTIONS
from regard.models.trial_state import LENGTH, SPLIT, Masks, changes_input, differ, ignores_input, varied

# first positions among which two have to differ; if all of a length are equal, the next one is tried
LENGTHS = (LENGTH, 64, 1024)
ROUNDING = 1e-5  # largest difference of equal numbers, as a share of the largest


def _length(config: Any) -> int:
    return min(LENGTH, config.max_positions)


def _seen(queries: int, keys: int, masks: Masks) -> Tensor:
    """True where one of the last `queries` of `keys` positions attends."""
    return causal_mask(queries, keys) if masks == "causal" else torch.ones(queries, keys, dtype=torch.bool)


def _wrong_numbers(what: str, found: Any) -> ConfigError | None:
    """The error for numbers that states cannot be combined with."""
    states = torch.get_default_dtype()
    if isinstance(found, Tensor) and found.dtype != states:
        return ConfigError(
            f"{what} gives {found.dtype}, but states are {states}",
            "convert it by .float(); numbers of NumPy are torch.float64",
        )
    if isinstance(found, Tensor) and found.isnan().any():
        return ConfigError(f"{what} gives NaN", "give a number for each position")
    return None


def _equal_positions(part: nn.Module, what: str, tells_apart: Callable[[int], bool]) -> ConfigError | None:
    """The error for an encoding that gives the same to all positions, whatever its parameters are."""
    equal = 0
    with varied(part):
        for length in LENGTHS:
            with suppress(Exception):  # a table may be shorter
                if tells_apart(length):
                    return None
                equal = length
    if not equal:
        return None
    return ConfigError(
        f"{what} gives the same for each of the first {equal} positions, so that the model has no order",
        "compute it from the number of the position, or set positions = 'none'",
    )


def try_added(part: nn.Module, config: Any, masks: Masks) -> ConfigError | None:
    what, length = f"the positional encoding {config.positions!r}", _length(config)

    def rows(start: int, length: int) -> Tensor:
        return added_positions(part, start, length, config.d_model)

    if (wrong := _wrong_numbers(what, part(0, SPLIT))) is not None:
        return wrong
    rows(0, SPLIT)  # its shape is checked
    whole: Tensor | None = None
    with suppress(Exception):  # a table may be shorter
        whole = rows(0, length)
    if whole is None:
        return None
    if differ(whole[..., :SPLIT, :], rows(0, SPLIT)):
        return ConfigError(
            f"{what} gives other vectors for positions 0 and 1 in a text of {length} than of {SPLIT}",
            "return vectors that do not depend on `length`, which is that of the longest text of a batch",
        )
    if masks == "causal" and differ(whole[..., SPLIT:, :], rows(SPLIT, length - SPLIT)):
        return ConfigError(
            f"{what} gives other vectors from start = {SPLIT} than from 0 for the same positions",
            "return those of positions start to start + length - 1: decoding begins a call at any position",
        )
    if hasattr(part, "at"):
        found = positions_at(part, torch.arange(length).expand(2, -1), config.d_model)
        if (wrong := _wrong_numbers(f"{what}: at", found)) is not None:
            return wrong
        if differ(whole, found):
            return ConfigError(
                f"{what} gives other vectors by at(positions) than by forward for the same positions",
                "give the same: at is called for packed documents",
            )
    return _equal_positions(part, what, lambda length: _differ_in(rows(0, length)))


def try_bias(part: nn.Module, config: Any, masks: Masks) -> ConfigError | None:
    what, length = f"the positional encoding {config.positions!r}", _length(config)

    def bias(queries: int, keys: int) -> Tensor:
        """The whole bias of the scores, 0 where nothing attends."""
        found = added_bias(part, queries, keys)
        assert found is not None
        return found.where(_seen(queries, keys, masks), 0.0)

    if (wrong := _wrong_numbers(what, part(SPLIT, SPLIT))) is not None:
        return wrong
    bias(SPLIT, SPLIT)  # its shape is checked
    whole: Tensor | None = None
    with suppress(Exception):  # a table may be shorter
        whole = bias(length, length)
    if whole is None:
        return None
    if differ(whole[..., :SPLIT, :SPLIT], bias(SPLIT, SPLIT)):
        return ConfigError(
            f"{what} gives other numbers for positions 0 and 1 in a text of {length} than of {SPLIT}",
            "return numbers that do not depend on how many positions follow",
        )
    if masks == "causal" and differ(whole[..., SPLIT:, :], bias(length - SPLIT, length)):
        return ConfigError(
            f"{what} gives other numbers for {length - SPLIT} queries of {length} keys than for all",
            "the queries are the last positions of the keys: decoding calls it with fewer queries than keys",
        )

    if masks == "causal" and hasattr(config, "num_encoder_layers"):
        return None  # its mask gives it an order, so that a bias may be that of the encoder alone

    def tells_apart(length: int) -> bool:
        """True if keys differ; softmax ignores what all keys of a query share, another kernel may use it."""
        found, seen = added_bias(part, length, length), _seen(length, length, masks)
        assert found is not None
        low, high = (found.where(seen, sign * torch.inf) for sign in (1, -1))
        axes = (-1,) if config.attention in ATTENTIONS.own else (-2, -1)
        return differ(low.amin(axes), high.amax(axes), ROUNDING)

    return _equal_positions(part, what, tells_apart)


def try_rotation(part: nn.Module, config: Any, masks: Masks) -> ConfigError | None:
    what = f"the positional encoding {config.positions!r}"
    x, other = torch.randn(2, 2, 1, _length(config), config.d_head)
    given = x.clone()
    turned = part(x, 0)
    if not isinstance(turned, Tensor) or turned.shape != x.shape:
        shape = [*turned.shape] if isinstance(turned, Tensor) else type(turned).__name__
        return ConfigError(f"{what} gives {shape} for queries of {[*x.shape]}", "give the same shape")
    if (wrong := _wrong_numbers(what, turned)) is not None:
        return wrong
    if not torch.equal(x, given):
        return changes_input(what)
    if not differ(turned, part(other, 0)):
        return ignores_input(what)
    # an encoder calls it from position 0 alone
    if masks == "causal" and differ(part(x, 0)[:, :, SPLIT:], part(x[:, :, SPLIT:], SPLIT)):
        return ConfigError(
            f"{what} gives other numbers from start = {SPLIT} than 0",
            "x begins at position `start`: decoding begins a call at any position",
        )
    same = x[:, :, :1]
    return _equal_positions(
        part, what, lambda length: _differ_in(part(same.expand(-1, -1, length, -1).clone(), 0))
    )


def _differ_in(rows: Tensor) -> bool:
    """True if the vectors of two positions, the last axis but one, differ."""
    return differ(rows[..., :1, :].expand_as(rows), rows, ROUNDING)
