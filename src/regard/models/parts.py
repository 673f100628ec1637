"""Layers built from a Transformer's config."""

import dataclasses
from typing import Any, Literal, TypeVar, cast

from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import RESIDUALS, DecoderBlock, EncoderBlock, ParallelBlock, PreNorm, Residual
from regard.layers.embedding import TokenEmbedding
from regard.layers.positions import RotaryPositions, positions_in
from regard.models.config import TransformerConfig
from regard.models.registered import (
    ATTENTIONS,
    POSITION_ARGUMENTS,
    POSITION_KINDS,
    POSITIONS,
    Where,
    called_part,
    made_feed_forward,
    made_norm,
    wrong_attention,
    wrong_positions,
)
from regard.models.trial_state import refuse_unregistered
from regard.models.windows import WindowConfig
from regard.registry import refuse_other_arguments

ParallelResidual = Literal["one_norm", "two_norms"]
Part = TypeVar("Part", bound=nn.Module)


class InputEmbedding(nn.Module):
    """The input of a stack: token embeddings plus added positions, an optional norm, then dropout."""

    def __init__(
        self, config: TransformerConfig, vocab_size: int, *, scaled: bool = True, normed: bool = False
    ) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, config.d_model, scaled=scaled)
        self.positions: Any = positions(config)
        self.norm = made_norm(config, config.d_model) if normed else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        ids: Int64[Tensor, "batch len"],
        start: int = 0,
        documents: Int64[Tensor, "batch len"] | None = None,
    ) -> Float[Tensor, "batch len d_model"]:
        """`start` is the position of the first id; with `documents`, positions start from 0 in each."""
        x = self.embedding(ids)
        if self.positions is not None and documents is not None:
            x = x + _positions_at(self.positions, positions_in(documents), x.size(2))
        elif self.positions is not None:
            x = x + added_positions(self.positions, start, ids.size(1), x.size(2))
        return self.dropout(self.norm(x))


def added_positions(
    module: Any, start: int, length: int, width: int
) -> Float[Tensor, "*ones {length} {width}"]:
    """The vectors of the positions from `start`; those of a registered encoding are checked.

    Raises:
        ConfigError: they are not one vector for each position.
    """
    added = module(start, length)
    return _of_shape(module, added, [length, width], "[length, d_model]")


def _positions_at(
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


def positions(config: TransformerConfig) -> nn.Module | None:
    """The positions that are added to embeddings, if they are given in this way."""
    return _positions(config, "input", True)


def position_bias(config: TransformerConfig, *, bidirectional: bool) -> nn.Module | None:
    """The bias that a stack adds to the scores of its self-attentions, for positions given in this way."""
    return _positions(config, "scores", bidirectional)


def rotary(config: TransformerConfig) -> RotaryPositions | None:
    """The rotation of queries and keys in all self-attentions of a stack, for positions given in this way."""
    return cast(RotaryPositions | None, _positions(config, "queries_and_keys", True))


def _positions(config: TransformerConfig, where: Where, bidirectional: bool) -> nn.Module | None:
    encoding = POSITIONS[config.positions]
    if encoding.where != where:
        return None
    made = called_part(POSITIONS, config.positions, encoding.make, config, bidirectional)
    if not isinstance(made, POSITION_KINDS[where]):
        raise wrong_positions(config.positions, where)
    is_own = config.positions in POSITIONS.own
    if not is_own:
        what = f"the positional encoding {config.positions!r}: forward"
        refuse_other_arguments(made.forward, what, POSITION_ARGUMENTS[where], kind=ConfigError)
    if where == "scores" and not is_own:
        named = config.positions, config.num_heads
        made.registered_bias = named  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
    return _marked(made, f"the positional encoding {config.positions!r}", is_own=is_own)


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
    return bias.expand(-1, -1, -1, wanted[3])


def _marked(part: Part, what: str, *, is_own: bool) -> Part:
    """The part; a registered one initialises itself, so that `initialise.xavier` leaves it as it is."""
    if not is_own:
        refuse_unregistered(what, part)
        part.initialises_itself = True  # pyright: ignore[reportArgumentType]
    return part


def encoder_block(
    config: TransformerConfig,
    rotary: RotaryPositions | None,
    *,
    parallel: ParallelResidual | None = None,
    softcap: float | None = None,
) -> EncoderBlock:
    """An encoder block of this config; `softcap` is that of attention scores."""
    attention, network = _self_attention(config, rotary, softcap), made_feed_forward(config)
    if parallel is None:
        return EncoderBlock(attention, network, lambda: _residual(config))
    make_norm = lambda: made_norm(config, config.d_model)  # noqa: E731
    one_norm = parallel == "one_norm"
    return ParallelBlock(attention, network, lambda: PreNorm(make_norm, config.dropout), one_norm=one_norm)


def encoder_blocks(
    config: WindowConfig, *, parallel: ParallelResidual | None = None, softcap: float | None = None
) -> nn.ModuleList:
    """The blocks of a stack; those with a window share its rotary positions, and so do the others."""
    usual = local = rotary(config)
    if config.local_rotary_base is not None:
        changes = {"rotary_base": config.local_rotary_base, "rotary_scaling": None, "local_rotary_base": None}
        local = rotary(dataclasses.replace(config, **changes))
    blocks = nn.ModuleList()
    for window in config.windows:
        rotation = usual if window is None else local
        block = encoder_block(config, rotation, parallel=parallel, softcap=softcap)
        block.window = window
        blocks.append(block)
    return blocks


def decoder_block(config: TransformerConfig, rotary: RotaryPositions | None) -> DecoderBlock:
    """A decoder block of this config."""
    cross_attention = MultiHeadAttention(
        config.d_model,
        config.num_heads,
        num_kv_heads=config.num_kv_heads,
        d_head=config.head_dim,
        scale=config.attention_scale,
        dropout=config.attention_dropout,
        **_attention_biases(config),
    )
    return DecoderBlock(
        _self_attention(config, rotary), cross_attention, made_feed_forward(config), lambda: _residual(config)
    )


def final_norm(config: TransformerConfig) -> nn.Module:
    """The norm after a stack; the identity for post-norm, where each block ends in a norm."""
    return nn.Identity() if config.norm_position == "post" else made_norm(config, config.d_model)


def _self_attention(
    config: TransformerConfig, rotary: RotaryPositions | None, softcap: float | None = None
) -> SelfAttention:
    """The self-attention. Registered ones need not know arguments that few models have."""
    rare: dict[str, Any] = {} if softcap is None else {"softcap": softcap}
    if config.qk_norm == "all_heads":
        rare["qk_norm_width"] = "all_heads"
    make, given = ATTENTIONS[config.attention], (config.d_model, config.num_heads)
    by_name: dict[str, Any] = dict(
        num_kv_heads=config.num_kv_heads,
        d_head=config.head_dim,
        scale=config.attention_scale,
        dropout=config.attention_dropout,
        **_attention_biases(config),
        rotary=rotary,
        qk_norm=(lambda width: made_norm(config, width)) if config.qk_norm else None,
        **rare,
    )
    what = f"the self-attention {config.attention!r}"
    if config.attention not in ATTENTIONS.own:
        refuse_other_arguments(make, what, ("d_model", "num_heads"), by_name, kind=ConfigError)
    made: Any = called_part(ATTENTIONS, config.attention, make, *given, **by_name)
    if not isinstance(made, SelfAttention):
        raise wrong_attention(config.attention)
    return _marked(made, what, is_own=config.attention in ATTENTIONS.own)


def _attention_biases(config: TransformerConfig) -> dict[str, bool]:
    """Which layers of an attention have biases; registered attentions need not know the second argument."""
    biases = config.attention_biases
    return {"bias": biases != "none", **({"output_bias": False} if biases == "inputs" else {})}


def _residual(config: TransformerConfig) -> Residual:
    return RESIDUALS[config.norm_position](lambda: made_norm(config, config.d_model), config.dropout)
