"""Layers built from a Transformer's config."""

import dataclasses
from typing import Any, Literal

from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import RESIDUALS, DecoderBlock, EncoderBlock, ParallelBlock, PreNorm, Residual
from regard.layers.embedding import TokenEmbedding
from regard.layers.positions import RotaryPositions, positions_in
from regard.models.config import TransformerConfig
from regard.models.positions import added_positions, input_positions, positions_at, rotary_positions
from regard.models.registered import (
    ATTENTIONS,
    called_part,
    made_feed_forward,
    made_norm,
    marked,
    options_of,
    refuse_other_calls,
    wrong_attention,
)
from regard.models.windows import WindowConfig
from regard.registry import refuse_other_arguments

ParallelResidual = Literal["one_norm", "two_norms"]


class InputEmbedding(nn.Module):
    """The input of a stack: token embeddings plus added positions, an optional norm, then dropout."""

    def __init__(
        self, config: TransformerConfig, vocab_size: int, *, scaled: bool = True, normed: bool = False
    ) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, config.d_model, scaled=scaled)
        self.positions: Any = input_positions(config)
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
            x = x + positions_at(self.positions, positions_in(documents), x.size(2))
        elif self.positions is not None:
            x = x + added_positions(self.positions, start, ids.size(1), x.size(2))
        return self.dropout(self.norm(x))


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
    usual = local = rotary_positions(config)
    if config.local_rotary_base is not None:
        changes = {"rotary_base": config.local_rotary_base, "rotary_scaling": None, "local_rotary_base": None}
        local = rotary_positions(dataclasses.replace(config, **changes))
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
        **options_of(config, "attention"),
    )
    what = f"the self-attention {config.attention!r}"
    if config.attention not in ATTENTIONS.own:
        refuse_other_arguments(make, what, ("d_model", "num_heads"), by_name, kind=ConfigError)
    made: Any = called_part(ATTENTIONS, config.attention, make, *given, **by_name)
    if not isinstance(made, SelfAttention):
        raise wrong_attention(config.attention)
    if config.attention not in ATTENTIONS.own:
        refuse_other_calls(made, what)
    return marked(made, what, is_own=config.attention in ATTENTIONS.own)


def _attention_biases(config: TransformerConfig) -> dict[str, bool]:
    """Which layers of an attention have biases; registered attentions need not know the second argument."""
    biases = config.attention_biases
    return {"bias": biases != "none", **({"output_bias": False} if biases == "inputs" else {})}


def _residual(config: TransformerConfig) -> Residual:
    return RESIDUALS[config.norm_position](lambda: made_norm(config, config.d_model), config.dropout)
