"""The trial of a registered self-attention: does it use queries, values, mask, cache and bias?"""

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.layers.attention import SelfAttention
from regard.layers.cache import KeyValueCache
from regard.layers.masks import causal_mask, padding_mask
from regard.models.registered import POSITIONS
from regard.models.trial_state import LENGTH, SPLIT, Masks, changes_input, differ, ignores_input

BLOCKS = 512  # positions of whole blocks, of any usual length
DROPOUTS = 20  # trials after which a dropout that changes nothing is not there


def try_attention(part: SelfAttention, config: Any, masks: Masks) -> ConfigError | None:
    what = f"the self-attention {config.attention!r}"
    x, other = torch.randn(2, 2, LENGTH, config.d_model)
    changed = torch.cat([x[:, :SPLIT], other[:, SPLIT:]], dim=1)
    full = causal_mask(LENGTH)

    def output(x: Tensor, mask: Tensor, **others: Any) -> Tensor:
        return part(x, x, mask, **others)

    mask = full if masks == "causal" else padding_mask(torch.full((2,), SPLIT), LENGTH)
    before = x.clone()
    try:
        plain = output(x, mask)
    except Exception:
        if (wrong := _few_heads(part, what)) is not None:
            return wrong
        if _works_for_blocks(part, config):
            return None
        raise
    if not torch.equal(x, before):
        return changes_input(what)
    if not isinstance(plain, Tensor) or plain.shape != x.shape or bool(plain.isnan().any()):
        is_nan = isinstance(plain, Tensor) and plain.shape == x.shape
        given = "NaN" if is_nan else [*plain.shape] if isinstance(plain, Tensor) else type(plain).__name__
        return ConfigError(
            f"{what} gives {given} for states of {[*x.shape]}", "return states of the same shape"
        )
    if differ(plain, output(x, mask)):
        return ConfigError(
            f"{what} gives two outputs for the same states in evaluation",
            "draw random numbers only `if self.training`",
        )
    if not differ(plain, output(other, mask)):
        return ignores_input(what)
    if (unused := _unused_argument(part, what)) is not None:
        return unused
    if differ(output(x, mask)[:, :SPLIT], output(changed, mask)[:, :SPLIT]):
        seen = "tokens after it" if masks == "causal" else "padding"
        return ConfigError(
            f"{what} does not use the mask: its output for a token depends on {seen}",
            "a position gets no weight where the mask is False",
        )
    if masks == "causal":
        cache = KeyValueCache()
        first = output(x[:, :SPLIT], full[..., :SPLIT, :SPLIT], cache=cache)
        then = output(x[:, SPLIT:], full[..., SPLIT:, :], cache=cache)
        if differ(output(x, full), torch.cat([first, then], dim=1)):
            return ConfigError(
                f"{what} gives another output token by token with a cache than for a whole text",
                "use the keys and values of the cache too; the queries are the last positions",
            )
    if POSITIONS[config.positions].where == "scores":
        bias = 3 * torch.randn(1, config.num_heads, LENGTH, LENGTH)
        if plain.isfinite().all() and not differ(plain, output(x, mask, position_bias=bias)):
            return ConfigError(
                f"positions = {config.positions!r} has no effect: {what} does not use position_bias",
                "add position_bias to the scores, or choose positions that are not added to scores",
            )
    return _try_dropout(part, config, x, mask)


def _inputs(part: SelfAttention, kv_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Random queries, keys and values of an `attend`."""
    heads = (part.num_heads, kv_heads, kv_heads)
    query, key, value = (torch.randn(2, each, LENGTH, part.d_head) for each in heads)
    return query, key, value


def _few_heads(part: SelfAttention, what: str) -> ConfigError | None:
    """The error for an `attend` that fails only because keys have fewer heads than queries."""
    heads, kv_heads = part.num_heads, part.num_kv_heads
    if heads == kv_heads:
        return None
    with suppress(Exception):
        part.attend(*_inputs(part, heads), causal_mask(LENGTH), None, 0.0)
        return ConfigError(
            f"{what} fails for num_kv_heads = {kv_heads}: its queries have {heads} heads",
            "repeat those of keys and values: key.repeat_interleave(query.size(1) // key.size(1), dim=1)",
        )
    return None


def _works_for_blocks(part: SelfAttention, config: Any) -> bool:
    """True if an attention works for texts of BLOCKS positions: it may need whole blocks of them."""
    x = torch.randn(1, BLOCKS, config.d_model)
    with suppress(Exception):
        return part(x, x, causal_mask(BLOCKS)).shape == x.shape
    return False


def _unused_argument(part: SelfAttention, what: str) -> ConfigError | None:
    """The error for an `attend` whose output does not depend on the queries, or on the values.

    Fixed weights are a choice (Zhang et al. 2018 average), which a class declares.
    """
    if not hasattr(type(part), "attend"):
        return None
    mask = causal_mask(LENGTH)
    query, key, value = _inputs(part, part.num_kv_heads)
    other_query, _, other_value = _inputs(part, part.num_kv_heads)
    with suppress(Exception):  # it may need what `forward` prepares
        mixed = part.attend(query, key, value, mask, None, 0.0)
        if not differ(mixed, part.attend(query, key, other_value, mask, None, 0.0)):
            return ConfigError(f"{what} ignores the values", "return a weighted sum of the values")
        ignored = not differ(mixed, part.attend(other_query, key, value, mask, None, 0.0))
        if ignored and not getattr(part, "ignores_queries", False):
            return ConfigError(
                f"{what} ignores the queries, so that the weights do not depend on the token that attends",
                "compute scores from queries and keys; if the weights are fixed on purpose, write"
                f" `ignores_queries = True` in the class {type(part).__name__}",
            )
    return None


def _try_dropout(part: SelfAttention, config: Any, x: Tensor, mask: Tensor) -> ConfigError | None:
    """A value that is the default of the config may not have been chosen."""
    if config.attention_dropout in (0.0, type(config).attention_dropout):
        return None
    without = part(x, x, mask)
    part.train()
    if without.isfinite().all() and not any(differ(without, part(x, x, mask)) for _ in range(DROPOUTS)):
        return ConfigError(
            f"attention_dropout = {config.attention_dropout} has no effect: the self-attention"
            f" {config.attention!r} does not use dropout",
            "apply `dropout` to the weights in attend, or set attention_dropout = 0",
        )
    return None
