"""Trials of registered parts: does an attention use its mask, do positions begin at their start?

`build_model` calls `refuse_parts_that_ignore` once. Each registered part of a stack is called with a few
random states: what it must not depend on is changed, and its output must stay the same. What it must depend
on is changed too. The trial leaves the random states and the part as they were.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.attention import SelfAttention
from regard.layers.cache import KeyValueCache
from regard.layers.masks import causal_mask, padding_mask
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.encoder_only import EncoderOnly
from regard.models.model import Model
from regard.models.positions import added_bias, added_positions
from regard.models.registered import POSITIONS, registered_parts
from regard.models.trial_state import changes_input, ignores_input, unchanged

Masks = Literal["causal", "padding"]
LENGTH, SPLIT = 5, 2  # positions of a trial; those before SPLIT are an earlier part of the text
SAME = 1e-3  # largest difference of equal outputs, as a share of the largest output
DROPOUTS = 20  # trials after which a dropout that changes nothing is not there


def refuse_parts_that_ignore(model: Model) -> None:
    """Raise a ConfigError if a registered part of a new model ignores what it has to use.

    A part that fails in its trial is not judged: a kernel may need a GPU, a table may be shorter.
    """
    names = registered_parts(model.config)
    for masks, stack in _stacks(model):
        attention = next((each for each in stack.modules() if isinstance(each, SelfAttention)), None)
        trials: list[tuple[Any, Callable[..., ConfigError | None]]] = []
        if "positions" in names:
            trials.append((getattr(getattr(stack, "input", None), "positions", None), _try_added))
            trials.append((getattr(stack, "position_bias", None), _try_bias))
            trials.append((attention and attention.rotary, _try_rotation))
        if "attention" in names:
            trials.append((attention, _try_attention))
        for part, trial in trials:
            if part is not None:
                found: ConfigError | None = None
                with suppress(Exception), unchanged(part):
                    found = trial(part, model.config, masks)
                if found is not None:
                    raise found


def _stacks(model: Model) -> Iterator[tuple[Masks, nn.Module]]:
    """The stacks that get masks. A model of images has none, so that its parts may ignore them."""
    match model:
        case EncoderDecoder():
            yield "padding", model.encoder
            yield "causal", model.decoder
        case EncoderOnly():
            yield "padding", model.encoder
        case DecoderOnly():
            yield "causal", model
        case _:
            return


def _differ(one: Tensor, other: Tensor) -> bool:
    """True if two results that should be the same are not."""
    tolerance = SAME * float(one.abs().max().clamp(max=torch.finfo(one.dtype).max / 10))
    return not torch.allclose(one, other, rtol=0.0, atol=tolerance, equal_nan=True)


def _length(config: Any) -> int:
    return min(LENGTH, config.max_positions)


def _try_added(part: nn.Module, config: Any, masks: Masks) -> ConfigError | None:
    what, length = f"the positional encoding {config.positions!r}", _length(config)

    def rows(start: int, length: int) -> Tensor:
        return added_positions(part, start, length, config.d_model)

    whole = rows(0, length)
    if _differ(whole[..., :SPLIT, :], rows(0, SPLIT)):
        return ConfigError(
            f"{what} gives other vectors for positions 0 and 1 in a text of {length} than of {SPLIT}",
            "return vectors that do not depend on `length`, which is that of the longest text of a batch",
        )
    if masks == "causal" and _differ(whole[..., SPLIT:, :], rows(SPLIT, length - SPLIT)):
        return ConfigError(
            f"{what} gives other vectors from start = {SPLIT} than from 0 for the same positions",
            "return those of positions start to start + length - 1: decoding begins a call at any position",
        )
    if hasattr(part, "at"):
        found: Any = part.at(torch.arange(length)[None])  # pyright: ignore[reportCallIssue]
        if isinstance(found, Tensor) and found.shape[-2:] == whole.shape[-2:] and _differ(whole, found):
            return ConfigError(
                f"{what} gives other vectors by at(positions) than by forward for the same positions",
                "give the same: at is called for packed documents",
            )
    return None


def _try_bias(part: nn.Module, config: Any, masks: Masks) -> ConfigError | None:
    what, length = f"the positional encoding {config.positions!r}", _length(config)

    def bias(queries: int, keys: int) -> Tensor:
        """The whole bias of the scores, 0 where nothing attends."""
        found = added_bias(part, queries, keys)
        assert found is not None
        seen = (
            causal_mask(queries, keys) if masks == "causal" else torch.ones(queries, keys, dtype=torch.bool)
        )
        return found.where(seen, 0.0)

    whole = bias(length, length)
    if _differ(whole[..., :SPLIT, :SPLIT], bias(SPLIT, SPLIT)):
        return ConfigError(
            f"{what} gives other numbers for positions 0 and 1 in a text of {length} than of {SPLIT}",
            "return numbers that do not depend on how many positions follow",
        )
    if masks == "causal" and _differ(whole[..., SPLIT:, :], bias(length - SPLIT, length)):
        return ConfigError(
            f"{what} gives other numbers for {length - SPLIT} queries of {length} keys than for all",
            "the queries are the last positions of the keys: decoding calls it with fewer queries than keys",
        )
    return None


def _try_rotation(part: nn.Module, config: Any, masks: Masks) -> ConfigError | None:
    what = f"the positional encoding {config.positions!r}"
    x, other = torch.randn(2, 2, 1, _length(config), config.d_head)
    given = x.clone()
    turned = part(x, 0)
    if not torch.equal(x, given):
        return changes_input(what)
    if not _differ(turned, part(other, 0)):
        return ignores_input(what)
    if masks != "causal":
        return None  # an encoder calls it from position 0 alone
    if _differ(part(x, 0)[:, :, SPLIT:], part(x[:, :, SPLIT:], SPLIT)):
        return ConfigError(
            f"{what} gives other numbers from start = {SPLIT} than 0",
            "x begins at position `start`: decoding begins a call at any position",
        )
    return None


def _try_attention(part: SelfAttention, config: Any, masks: Masks) -> ConfigError | None:
    what = f"the self-attention {config.attention!r}"
    x, other = torch.randn(2, 2, LENGTH, config.d_model)
    changed = torch.cat([x[:, :SPLIT], other[:, SPLIT:]], dim=1)
    full = causal_mask(LENGTH)

    def output(x: Tensor, mask: Tensor, **others: Any) -> Tensor:
        return part(x, x, mask, **others)

    mask = full if masks == "causal" else padding_mask(torch.full((2,), SPLIT), LENGTH)
    before = x.clone()
    plain = output(x, mask)
    if not torch.equal(x, before):
        return changes_input(what)
    if not isinstance(plain, Tensor) or plain.shape != x.shape or bool(plain.isnan().any()):
        is_nan = isinstance(plain, Tensor) and plain.shape == x.shape
        given = "NaN" if is_nan else [*plain.shape] if isinstance(plain, Tensor) else type(plain).__name__
        return ConfigError(
            f"{what} gives {given} for states of {[*x.shape]}", "return states of the same shape"
        )
    if _differ(plain, output(x, mask)):
        return ConfigError(
            f"{what} gives two outputs for the same states in evaluation",
            "draw random numbers only `if self.training`",
        )
    if not _differ(plain, output(other, mask)):
        return ignores_input(what)
    if _differ(output(x, mask)[:, :SPLIT], output(changed, mask)[:, :SPLIT]):
        seen = "tokens after it" if masks == "causal" else "padding"
        return ConfigError(
            f"{what} does not use the mask: its output for a token depends on {seen}",
            "a position gets no weight where the mask is False",
        )
    if masks == "causal":
        cache = KeyValueCache()
        first = output(x[:, :SPLIT], full[..., :SPLIT, :SPLIT], cache=cache)
        then = output(x[:, SPLIT:], full[..., SPLIT:, :], cache=cache)
        if _differ(output(x, full), torch.cat([first, then], dim=1)):
            return ConfigError(
                f"{what} gives another output token by token with a cache than for a whole text",
                "use the keys and values of the cache too; the queries are the last positions",
            )
    if POSITIONS[config.positions].where == "scores":
        bias = 3 * torch.randn(1, config.num_heads, LENGTH, LENGTH)
        if plain.isfinite().all() and not _differ(plain, output(x, mask, position_bias=bias)):
            return ConfigError(
                f"positions = {config.positions!r} has no effect: {what} does not use position_bias",
                "add position_bias to the scores, or choose positions that are not added to scores",
            )
    return _try_dropout(part, config, x, mask)


def _try_dropout(part: SelfAttention, config: Any, x: Tensor, mask: Tensor) -> ConfigError | None:
    """A value that is the default of the config may not have been chosen."""
    if config.attention_dropout in (0.0, type(config).attention_dropout):
        return None
    without = part(x, x, mask)
    part.train()
    if without.isfinite().all() and not any(_differ(without, part(x, x, mask)) for _ in range(DROPOUTS)):
        return ConfigError(
            f"attention_dropout = {config.attention_dropout} has no effect: the self-attention"
            f" {config.attention!r} does not use dropout",
            "apply `dropout` to the weights in attend, or set attention_dropout = 0",
        )
    return None
