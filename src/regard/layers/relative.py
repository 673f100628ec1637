"""Self-attention with relative positions (Dai et al. 2019, section 3.3), used by the conformer."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.layers.arguments import refuse_other_sizes
from regard.layers.attention import SelfAttention
from regard.layers.cache import KeyValue, KeyValueCache
from regard.layers.positions import sinusoids


class RelativePositions(nn.Module):
    """A sinusoidal vector for each distance between two positions of a sequence of any length.

    Vectors of the distances in sequences of up to `table_len` are computed once, others in each call.
    """

    table: Tensor

    def __init__(self, d_model: int, table_len: int = 512) -> None:
        super().__init__()
        refuse_other_sizes(d_model=d_model, table_len=table_len)
        self.d_model, self.table_len = d_model, table_len
        self.register_buffer("table", self._vectors(table_len, None), persistent=False)

    def forward(self, length: int) -> Float[Tensor, "2*{length}-1 d_model"]:
        """The vectors of the distances `length` - 1 (earlier keys) to 1 - `length` (later keys)."""
        if length <= self.table_len:
            return self.table[self.table_len - length : self.table_len + length - 1]
        return self._vectors(length, self.table.device).to(self.table)

    def _vectors(self, length: int, device: torch.device | None) -> Float[Tensor, "distances d_model"]:
        # the largest distance, that of the earliest key, comes first
        return sinusoids(1 - length, 2 * length - 1, self.d_model, device=device).flip(0)


class RelativeSelfAttention(SelfAttention):
    """Self-attention whose scores depend on content and on distance.

    The score of query i and key j is ((q_i + u) . k_j + (q_i + v) . W r_(i-j)) / sqrt(d_head). The first term
    scores content, the second distance; u and v are learned biases of each head, the same for all
    queries. `positions` computes r and may be shared by the layers of a stack; each layer has its own W, u
    and v.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        positions: RelativePositions,
        *,
        num_kv_heads: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        qk_norm: Callable[[int], nn.Module] | None = None,
    ) -> None:
        super().__init__(
            d_model, num_heads, num_kv_heads=num_kv_heads, dropout=dropout, bias=bias, qk_norm=qk_norm
        )
        self.positions = positions
        self.distance = nn.Linear(d_model, d_model, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(num_heads, 1, self.d_head))  # u
        self.distance_bias = nn.Parameter(torch.zeros(num_heads, 1, self.d_head))  # v

    def forward(
        self,
        x: Float[Tensor, "batch len d_model"],
        memory: Float[Tensor, "batch len d_model"] | KeyValue,
        mask: Bool[Tensor, "#batch #heads #len len"] | None = None,
        *,
        values: Float[Tensor, "batch len d_model"] | None = None,
        position_bias: Float[Tensor, "#batch #heads #len len"] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch len d_model"]:
        if cache is not None:
            raise ValueError("relative attention has no cache: give it the whole sequence at once")
        query, key_value = self._project(x, memory, values, None)
        distance_keys = self._heads(self.distance(self.positions(x.size(1)))[None])
        by_distance = (query + self.distance_bias) @ distance_keys.transpose(-2, -1)
        bias = shifted(by_distance) / math.sqrt(self.d_head)
        if position_bias is not None:
            bias = bias + position_bias
        dropout = self.dropout if self.training else 0.0
        mixed = self.attend(query + self.content_bias, key_value.key, key_value.value, mask, bias, dropout)
        return self.output(mixed.transpose(1, 2).flatten(2))


def shifted(
    by_distance: Float[Tensor, "batch heads len distances"],
) -> Float[Tensor, "batch heads len len"]:
    """Scores by distance (see `RelativePositions`) -> scores by key.

    Entry (i, j) of the result is the score of distance i - j, which is in column len - 1 - i + j of row i. A
    column is prepended, which makes rows of 2 len numbers; the first len numbers are dropped, and the others
    are cut into rows of 2 len - 1, which shifts each row by one more than the row before (Dai et al. 2019,
    appendix B).
    """
    length = by_distance.size(2)
    wider = F.pad(by_distance, (1, 0)).flatten(2)[..., length:]
    return wider.unflatten(2, (length, 2 * length - 1))[..., :length]
