"""Encoder and decoder blocks, and the three places of the norm around a sub-layer."""

from collections.abc import Callable
from functools import partial
from typing import Literal, cast

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.cache import KeyValue, KeyValueCache
from regard.layers.dropout import Dropout, drawn
from regard.layers.feedforward import Activation, feed_forward
from regard.layers.fusing import can_be_fused
from regard.layers.norm import Norm, norm
from regard.native.around import AddDropped, AddNorm, Drawn

NormPosition = Literal["post", "pre", "sandwich"]
Sublayer = Callable[[Tensor], Tensor]
MakeNorm = Callable[[], nn.Module]


class PostNorm(nn.Module):
    """norm(x + dropout(sublayer(x))), as in Vaswani et al. 2017, section 5.4."""

    def __init__(self, make_norm: MakeNorm, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = make_norm(), Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch len d_model"], sublayer: Sublayer
    ) -> Float[Tensor, "batch len d_model"]:
        y = sublayer(x)
        if self._can_be_fused(x, y):
            p, norm = self.dropout.p, cast(nn.LayerNorm, self.norm)
            return AddNorm.apply(
                x, y, norm.weight, norm.bias, norm.eps, drawn(y.shape, p) if p else Drawn(None)
            )
        return self.norm(x + self.dropout(y))

    def _can_be_fused(self, x: Tensor, y: Tensor) -> bool:
        norm = self.norm
        known = type(norm) is nn.LayerNorm and norm.bias is not None
        return (
            known
            and norm.normalized_shape == y.shape[-1:]
            and _are_alike(x, y)
            and can_be_fused(y, norm, self.dropout)
        )


class PreNorm(nn.Module):
    """x + dropout(sublayer(norm(x))); the stack then ends in a norm of its own (Xiong et al. 2020)."""

    def __init__(self, make_norm: MakeNorm, dropout: float) -> None:
        super().__init__()
        self.norm, self.dropout = make_norm(), Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch len d_model"], sublayer: Sublayer
    ) -> Float[Tensor, "batch len d_model"]:
        return _added(x, sublayer(self.norm(x)), self.dropout)


class SandwichNorm(nn.Module):
    """x + dropout(norm_after(sublayer(norm_before(x)))) (Ding et al. 2021); a final norm here too."""

    def __init__(self, make_norm: MakeNorm, dropout: float) -> None:
        super().__init__()
        self.norm_before, self.norm_after, self.dropout = make_norm(), make_norm(), Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch len d_model"], sublayer: Sublayer
    ) -> Float[Tensor, "batch len d_model"]:
        return _added(x, self.norm_after(sublayer(self.norm_before(x))), self.dropout)


def _added(x: Tensor, y: Tensor, dropout: Dropout) -> Tensor:
    """x + dropout(y)."""
    if dropout.p and _are_alike(x, y) and can_be_fused(y, dropout):
        return AddDropped.apply(x, y, drawn(y.shape, dropout.p))
    return x + dropout(y)


def _are_alike(x: Tensor, y: Tensor) -> bool:
    return x.shape == y.shape and x.dtype == y.dtype


Around = PostNorm | PreNorm | SandwichNorm
AROUND: dict[NormPosition, type[Around]] = {"post": PostNorm, "pre": PreNorm, "sandwich": SandwichNorm}


class EncoderBlock(nn.Module):
    """A sequence looks at itself, then each position thinks for itself.

    `around` makes what stands around a sub-layer: residual, dropout, norm. With a causal mask it is the
    block of a decoder that has no memory to look at; then `x` may be the positions after those that a
    `cache` holds.
    """

    def __init__(
        self, self_attention: SelfAttention, feed_forward: nn.Module, around: Callable[[], Around]
    ) -> None:
        super().__init__()
        self.self_attention, self.around_self_attention = self_attention, around()
        self.feed_forward, self.around_feed_forward = feed_forward, around()

    @classmethod
    def of_size(
        cls,
        d_model: int,
        num_heads: int,
        d_ff: int,
        *,
        dropout: float = 0.0,
        norm_position: NormPosition = "pre",
        normalisation: Norm = "layer",
        activation: Activation = "relu",
    ) -> "EncoderBlock":
        """A block of these sizes: attention with as many keys and values as queries, and no positions.

        `d_model` is the width of its input and output, `d_ff` that of the feed-forward network within.
        """
        return cls(
            SelfAttention(d_model, num_heads, dropout=dropout),
            feed_forward(activation, d_model, d_ff, dropout=dropout),
            partial(AROUND[norm_position], partial(norm, normalisation, d_model), dropout),
        )

    def forward(
        self,
        x: Float[Tensor, "batch len d_model"],
        mask: Bool[Tensor, "#batch #heads #len seen_len"] | None = None,
        position_bias: Float[Tensor, "#batch heads len seen_len"] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch len d_model"]:
        x = self.around_self_attention(
            x, lambda y: self.self_attention(y, y, mask, position_bias=position_bias, cache=cache)
        )
        return self.around_feed_forward(x, self.feed_forward)


class DecoderBlock(nn.Module):
    """As the encoder's, and between the two each position looks at the memory.

    With a `cache`, `x` are the positions after those that it holds.
    """

    def __init__(
        self,
        self_attention: SelfAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: nn.Module,
        around: Callable[[], Around],
    ) -> None:
        super().__init__()
        self.self_attention, self.around_self_attention = self_attention, around()
        self.cross_attention, self.around_cross_attention = cross_attention, around()
        self.feed_forward, self.around_feed_forward = feed_forward, around()

    @classmethod
    def of_size(
        cls,
        d_model: int,
        num_heads: int,
        d_ff: int,
        *,
        d_memory: int | None = None,
        dropout: float = 0.0,
        norm_position: NormPosition = "pre",
        normalisation: Norm = "layer",
        activation: Activation = "relu",
    ) -> "DecoderBlock":
        """As `EncoderBlock.of_size`, over a memory of width `d_memory`, `d_model` where that is None."""
        return cls(
            SelfAttention(d_model, num_heads, dropout=dropout),
            MultiHeadAttention(d_model, num_heads, key_dim=d_memory, value_dim=d_memory, dropout=dropout),
            feed_forward(activation, d_model, d_ff, dropout=dropout),
            partial(AROUND[norm_position], partial(norm, normalisation, d_model), dropout),
        )

    def read(self, memory: Float[Tensor, "batch src_len d_memory"]) -> KeyValue:
        """What the cross-attention looks at, to be made once and given as `memory` many times.

        In one layout, whether rows are selected later or not: products of strided keys end in other bits.
        """
        return self.cross_attention.read(memory).contiguous()

    def forward(
        self,
        x: Float[Tensor, "batch tgt_len d_model"],
        memory: Float[Tensor, "batch src_len d_memory"] | KeyValue,
        mask: Bool[Tensor, "#batch #heads tgt_len seen_len"] | None = None,
        memory_mask: Bool[Tensor, "#batch #heads #tgt_len src_len"] | None = None,
        position_bias: Float[Tensor, "#batch heads tgt_len seen_len"] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        x = self.around_self_attention(
            x, lambda y: self.self_attention(y, y, mask, position_bias=position_bias, cache=cache)
        )
        x = self.around_cross_attention(x, lambda y: self.cross_attention(y, memory, memory_mask))
        return self.around_feed_forward(x, self.feed_forward)
