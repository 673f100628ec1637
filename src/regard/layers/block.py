"""Encoder and decoder blocks; residual connections with the norm after, before, or on both sides."""

from collections.abc import Callable
from functools import partial
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.layers.arguments import refuse_other_shares, refuse_other_sizes, refuse_unknown
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.cache import KeyValue, KeyValueCache
from regard.layers.feedforward import Activation, feed_forward
from regard.layers.norm import Norm, norm

NormPosition = Literal["post", "pre", "sandwich", "reordered"]
Sublayer = Callable[[Tensor], Tensor]
MakeNorm = Callable[[], nn.Module]


class PostNorm(nn.Module):
    """A residual connection with the norm after it: norm(x + dropout(sublayer(x))).

    Vaswani et al. 2017, section 5.4.
    """

    def __init__(self, make_norm: MakeNorm, dropout: float) -> None:
        super().__init__()
        refuse_other_shares(dropout=dropout)
        self.norm, self.dropout = make_norm(), nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch len d_model"], sublayer: Sublayer
    ) -> Float[Tensor, "batch len d_model"]:
        return self.norm(x + self.dropout(sublayer(x)))


class PreNorm(nn.Module):
    """A residual connection with the norm before the sub-layer: x + dropout(sublayer(norm(x))).

    Xiong et al. 2020. A stack of such blocks has a final norm. If a `residual` is given, the sub-layer's
    output is added to it instead of to `x`.
    """

    def __init__(self, make_norm: MakeNorm, dropout: float) -> None:
        super().__init__()
        refuse_other_shares(dropout=dropout)
        self.norm, self.dropout = make_norm(), nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch len d_model"],
        sublayer: Sublayer,
        residual: Float[Tensor, "batch len d_model"] | None = None,
    ) -> Float[Tensor, "batch len d_model"]:
        return (x if residual is None else residual) + self.dropout(sublayer(self.norm(x)))


class SandwichNorm(nn.Module):
    """A residual connection with two norms: x + dropout(norm_after(sublayer(norm_before(x)))).

    Ding et al. 2021. A stack of such blocks has a final norm.
    """

    def __init__(self, make_norm: MakeNorm, dropout: float) -> None:
        super().__init__()
        refuse_other_shares(dropout=dropout)
        self.norm_before, self.norm_after, self.dropout = make_norm(), make_norm(), nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch len d_model"], sublayer: Sublayer
    ) -> Float[Tensor, "batch len d_model"]:
        return x + self.dropout(self.norm_after(sublayer(self.norm_before(x))))


class ReorderedNorm(nn.Module):
    """A residual connection with the norm after the sub-layer: x + dropout(norm(sublayer(x))).

    OLMo 2 (Walsh et al. 2025, section 2.1). A stack of such blocks has a final norm.
    """

    def __init__(self, make_norm: MakeNorm, dropout: float) -> None:
        super().__init__()
        refuse_other_shares(dropout=dropout)
        self.norm, self.dropout = make_norm(), nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "batch len d_model"], sublayer: Sublayer
    ) -> Float[Tensor, "batch len d_model"]:
        return x + self.dropout(self.norm(sublayer(x)))


Residual = PostNorm | PreNorm | SandwichNorm | ReorderedNorm
RESIDUALS: dict[NormPosition, type[Residual]] = {
    "post": PostNorm,
    "pre": PreNorm,
    "sandwich": SandwichNorm,
    "reordered": ReorderedNorm,
}


def _residual(
    norm_position: NormPosition, normalisation: Norm, d_model: int, dropout: float
) -> Callable[[], Residual]:
    """What makes the norms and dropout around a sub-layer."""
    refuse_unknown("norm_position", norm_position, RESIDUALS)
    return partial(RESIDUALS[norm_position], partial(norm, normalisation, d_model), dropout)


class EncoderBlock(nn.Module):
    """Self-attention, then a feed-forward network, each within a residual connection.

    `residual()` returns a new residual connection with its dropout and norm, such as a `PreNorm`. With a
    causal mask this is the block of a decoder-only model. The residual connections are the attributes
    `around_self_attention` and `around_feed_forward`. A stack sets `window` for a block whose positions
    attend to a window only (see `window_mask`); None: they attend to all.
    """

    def __init__(
        self, self_attention: SelfAttention, feed_forward: nn.Module, residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.window: int | None = None
        self.self_attention, self.around_self_attention = self_attention, residual()
        self.feed_forward, self.around_feed_forward = feed_forward, residual()

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
        """A block of these sizes, with as many key-value heads as query heads, and without positions.

        `d_model` is the width of its input and output, `d_ff` the inner width of the feed-forward network.
        """
        return cls(
            SelfAttention(d_model, num_heads, dropout=dropout),
            feed_forward(activation, d_model, d_ff, dropout=dropout),
            _residual(norm_position, normalisation, d_model, dropout),
        )

    def forward(
        self,
        x: Float[Tensor, "batch len d_model"],
        mask: Bool[Tensor, "#batch #heads #len seen_len"] | None = None,
        position_bias: Float[Tensor, "#batch heads len seen_len"] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch len d_model"]:
        """The outputs for `x`; arguments are those of the attention.

        With a `cache`, `x` has the positions after the cached ones, and seen_len counts both.
        """
        x = self.around_self_attention(
            x, lambda y: self.self_attention(y, y, mask, position_bias=position_bias, cache=cache)
        )
        return self.around_feed_forward(x, self.feed_forward)


class ParallelBlock(EncoderBlock):
    """A pre-norm block whose attention and feed-forward network both read the block's input.

    x + attention(norm(x)) + feed_forward(norm(x)), as in GPT-J and GPT-NeoX (Black et al. 2022, section 2.1).
    With `one_norm` both read the same normalised input, as in Phi.
    """

    def __init__(
        self,
        self_attention: SelfAttention,
        feed_forward: nn.Module,
        residual: Callable[[], PreNorm],
        *,
        one_norm: bool = False,
    ) -> None:
        super().__init__(self_attention, feed_forward, residual)
        assert isinstance(self.around_feed_forward, PreNorm)
        if one_norm:
            self.around_feed_forward.norm = self.around_self_attention.get_submodule("norm")

    def forward(
        self,
        x: Float[Tensor, "batch len d_model"],
        mask: Bool[Tensor, "#batch #heads #len seen_len"] | None = None,
        position_bias: Float[Tensor, "#batch heads len seen_len"] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch len d_model"]:
        attended = self.around_self_attention(
            x, lambda y: self.self_attention(y, y, mask, position_bias=position_bias, cache=cache)
        )
        return self.around_feed_forward(x, self.feed_forward, attended)


class DecoderBlock(nn.Module):
    """Self-attention, cross-attention to the memory, feed-forward network, each within a residual connection.

    `residual()` returns a new residual connection, as in `EncoderBlock`.
    """

    def __init__(
        self,
        self_attention: SelfAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: nn.Module,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.self_attention, self.around_self_attention = self_attention, residual()
        self.cross_attention, self.around_cross_attention = cross_attention, residual()
        self.feed_forward, self.around_feed_forward = feed_forward, residual()

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
        """As `EncoderBlock.of_size`; `d_memory` is the width of the memory (None: `d_model`)."""
        refuse_other_sizes(d_memory=d_memory)
        return cls(
            SelfAttention(d_model, num_heads, dropout=dropout),
            MultiHeadAttention(d_model, num_heads, key_dim=d_memory, value_dim=d_memory, dropout=dropout),
            feed_forward(activation, d_model, d_ff, dropout=dropout),
            _residual(norm_position, normalisation, d_model, dropout),
        )

    def read(self, memory: Float[Tensor, "batch src_len d_memory"]) -> KeyValue:
        """Keys and values of the cross-attention: computed once, then passed as `memory` in many calls.

        They are always contiguous, because products with strided keys round differently.
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
        """The outputs for `x`; `memory` is a sequence, or its keys and values, which `read` returns.

        `mask` is for the self-attention, usually causal; `memory_mask` for the cross-attention. With a
        `cache`, `x` has the positions after the cached ones, and seen_len counts both.
        """
        x = self.around_self_attention(
            x, lambda y: self.self_attention(y, y, mask, position_bias=position_bias, cache=cache)
        )
        x = self.around_cross_attention(x, lambda y: self.cross_attention(y, memory, memory_mask))
        return self.around_feed_forward(x, self.feed_forward)
