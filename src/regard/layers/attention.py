"""Multi-head attention (Vaswani et al. 2017, section 3.2.2): self, cross, grouped; any input widths."""

import math
from collections.abc import Callable
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.layers.arguments import refuse_other_factors, refuse_other_shares, refuse_other_sizes
from regard.layers.cache import KeyValue, KeyValueCache
from regard.layers.positions import RotaryPositions
from regard.layers.scaled_dot_product import SoftcappedAttention, attention, refuse_other_mask
from regard.layers.stacked import StackedLinear

NormWidth = Literal["head", "all_heads"]


class OutputError(ValueError):
    """An `attend` of a subclass has returned something else than one vector for each query and head."""


class MultiHeadAttention(nn.Module):
    """Attention from each position of `x` (queries) to all positions of `memory` (keys and values).

    Keys are projected from inputs of width `key_dim`, values from inputs of width `value_dim`. The
    `num_heads` query heads share `num_kv_heads` heads of keys and values (Ainslie et al. 2023). A head is
    `d_head` wide (None: d_model / num_heads). Scores are multiplied by `scale` (None: 1 / sqrt(d_head)), and
    then soft-capped at `softcap` if given. The output layer has a bias if `output_bias` (None: if `bias`).

    `attend` computes weights and outputs, with the signature of `scaled_dot_product.attention`. A subclass
    may define it as a method, which then has to cap scores at `self.softcap`, too. A recorder or another
    kernel replaces it in the object.

        layer = MultiHeadAttention(d_model=512, num_heads=8)
        layer(x, memory, mask)  # [batch, tgt_len, 512], [batch, src_len, 512] -> [batch, tgt_len, 512]

    `mask` is boolean, and True means "may attend"; None lets each position attend to all. Its shape is
    [batch, heads, tgt_len, src_len]; batch, heads and tgt_len may be 1. `padding_mask` and `causal_mask`
    of `regard.layers` make such masks. (PyTorch's `nn.MultiheadAttention` has them the other way round.)

    Raises:
        ValueError: a size is no whole number above 0; `num_heads` does not divide `d_model` (without
            `d_head`), or `num_kv_heads` does not divide `num_heads`; or `dropout` is not in [0, 1).
    """

    attend: Callable[..., Tensor]

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        key_dim: int | None = None,
        value_dim: int | None = None,
        d_head: int | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        output_bias: bool | None = None,
    ) -> None:
        super().__init__()
        refuse_other_sizes(d_model=d_model, num_heads=num_heads, num_kv_heads=num_kv_heads, d_head=d_head)
        refuse_other_sizes(key_dim=key_dim, value_dim=value_dim)
        refuse_other_shares(dropout=dropout)
        refuse_other_factors(scale=scale, softcap=softcap)
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        if d_head is None and d_model % num_heads:
            raise ValueError(f"d_model ({d_model}) must be divisible by num_heads ({num_heads})")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_heads ({num_heads}) must be divisible by num_kv_heads ({num_kv_heads})")
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.d_head = d_model // num_heads if d_head is None else d_head
        self.scale, self.softcap = scale, softcap
        self.dropout = dropout
        if not hasattr(type(self), "attend"):  # a subclass may have a method of its own
            self.attend = attention if softcap is None else SoftcappedAttention(softcap)
        self._make_inputs(d_model, key_dim or d_model, value_dim or d_model, bias)
        self.output = nn.Linear(
            num_heads * self.d_head, d_model, bias if output_bias is None else output_bias
        )

    def _make_inputs(self, d_model: int, key_dim: int, value_dim: int, bias: bool) -> None:
        self.query = nn.Linear(d_model, self.num_heads * self.d_head, bias)
        self.key = nn.Linear(key_dim, self.num_kv_heads * self.d_head, bias)
        self.value = nn.Linear(value_dim, self.num_kv_heads * self.d_head, bias)

    def forward(
        self,
        x: Float[Tensor, "batch tgt_len d_model"],
        memory: Float[Tensor, "batch new_len key_dim"] | KeyValue,
        mask: Bool[Tensor, "#batch #heads #tgt_len src_len"] | None = None,
        *,
        values: Float[Tensor, "batch new_len value_dim"] | None = None,
        position_bias: Float[Tensor, "#batch #heads #tgt_len src_len"] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """The outputs for `x`; `memory` is a sequence, or the keys and values that `read` has returned.

        `mask` is True where a position of `x` may attend to a position of the keys. A position that may
        attend to nothing gets zeros before the output layer. `position_bias` is added to the scores before
        the softmax.
        If `values` is given, the values are projected from it instead of from `memory`. If there is a
        `cache`, its positions come before those of `memory`, which are appended to it.
        """
        refuse_other_mask(mask)
        query, key_value = self._project(x, memory, values, cache)
        dropout = self.dropout if self.training else 0.0
        mixed = self.attend(query, key_value.key, key_value.value, mask, position_bias, dropout)
        if hasattr(type(self), "attend"):
            self._check_mixed(mixed, query, key_value.value)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def read(
        self,
        memory: Float[Tensor, "batch new_len key_dim"],
        values: Float[Tensor, "batch new_len value_dim"] | None = None,
    ) -> KeyValue:
        """The projected keys and values of a memory, for use in many calls."""
        return KeyValue(
            self._heads(self.key(memory)), self._heads(self.value(memory if values is None else values))
        )

    def _project(
        self, x: Tensor, memory: Tensor | KeyValue, values: Tensor | None, cache: KeyValueCache | None
    ) -> tuple[Tensor, KeyValue]:
        """The queries, and the keys and values of all positions, split into heads."""
        key_value = memory if isinstance(memory, KeyValue) else self.read(memory, values)
        query = self._scaled(self._heads(self.query(x)))
        return query, key_value if cache is None else cache.append(*key_value)

    def _check_mixed(self, mixed: object, query: Tensor, value: Tensor) -> None:
        """Refuse an output of a subclass's own `attend` that would be broadcast, or not be used at all."""
        wanted = [*query.shape[:3], value.size(-1)]
        shape = [*mixed.shape] if isinstance(mixed, Tensor) else None
        if shape != wanted:
            what = type(mixed).__name__ if shape is None else f"a tensor of shape {shape}"
            raise OutputError(
                f"attend of {type(self).__name__} returns {what}, not [batch, heads, tgt_len, d_value],"
                f" here {wanted}"
            )

    def _scaled(
        self, query: Float[Tensor, "batch heads len d_head"]
    ) -> Float[Tensor, "batch heads len d_head"]:
        """Queries whose scores, which every kernel divides by sqrt(d_head), are multiplied by `scale`."""
        return query if self.scale is None else query * (self.scale * math.sqrt(self.d_head))

    def _heads(self, x: Float[Tensor, "batch len width"]) -> Float[Tensor, "batch some_heads len d_head"]:
        return x.unflatten(-1, (-1, self.d_head)).transpose(1, 2)


class SelfAttention(MultiHeadAttention):
    """Self-attention: queries, keys and values of one sequence, projected by one matrix product.

    It is called with the same tensor twice: `layer(x, x, mask)`. `rotary` applies rotary position embedding
    to queries and keys. `qk_norm(width)` returns a norm of that width; two such norms are applied to queries
    and keys before `rotary`, which bounds the scores (Henry et al. 2020): to each head, or with
    `qk_norm_width` "all_heads" to all heads of a position at once, as in OLMo 2.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        d_head: int | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        output_bias: bool | None = None,
        rotary: RotaryPositions | None = None,
        qk_norm: Callable[[int], nn.Module] | None = None,
        qk_norm_width: NormWidth = "head",
    ) -> None:
        super().__init__(
            d_model,
            num_heads,
            num_kv_heads=num_kv_heads,
            d_head=d_head,
            scale=scale,
            softcap=softcap,
            dropout=dropout,
            bias=bias,
            output_bias=output_bias,
        )
        self.rotary = rotary
        self.qk_norm_width: NormWidth = qk_norm_width
        widths = (self.d_head, self.d_head)
        if qk_norm_width == "all_heads":
            widths = self.query_key_value.widths[:2]
        self.query_norm, self.key_norm = (None if qk_norm is None else qk_norm(width) for width in widths)

    def _make_inputs(self, d_model: int, key_dim: int, value_dim: int, bias: bool) -> None:
        width, kv_width = self.num_heads * self.d_head, self.num_kv_heads * self.d_head
        self.query_key_value = StackedLinear(d_model, (width, kv_width, kv_width), bias)

    def read(self, memory: Tensor, values: Tensor | None = None) -> KeyValue:
        raise ValueError("self-attention makes keys and values of its own input, together with the queries")

    def _project(
        self, x: Tensor, memory: Tensor | KeyValue, values: Tensor | None, cache: KeyValueCache | None
    ) -> tuple[Tensor, KeyValue]:
        if memory is not x or values is not None:
            raise ValueError("self-attention attends to its own input: give x as the memory, and no values")
        query, key, value = self.query_key_value(x).split(self.query_key_value.widths, dim=-1)
        has_norm, of_each_head = self.query_norm is not None, self.qk_norm_width == "head"
        if has_norm and not of_each_head:
            query, key = self._normed(query, key)
        query, key, value = (self._heads(part) for part in (query, key, value))
        if has_norm and of_each_head:
            query, key = self._normed(query, key)
        if self.rotary is not None:
            start = 0 if cache is None else cache.length
            query, key = self.rotary(query, start), self.rotary(key, start)
        query = self._scaled(query)
        return query, KeyValue(key, value) if cache is None else cache.append(key, value)

    def _normed(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        assert self.query_norm is not None
        assert self.key_norm is not None
        return self.query_norm(query), self.key_norm(key)
