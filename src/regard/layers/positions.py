"""Positional encodings: sinusoidal, learned, rotary, ALiBi, T5's relative positions.

There are three kinds: a vector added to the embedding (`SinusoidalPositions`, `LearnedPositions`), a rotation
of queries and keys (`RotaryPositions`), a bias added to the scores (`LinearBias`, `BucketBias`). Attention
without any of them does not depend on the order of its inputs.
"""

import math
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Int64
from torch import Tensor, nn

from regard.layers.arguments import refuse_other_factors, refuse_other_sizes, refuse_unknown
from regard.layers.rotary_scaling import RotaryScaling

Layout = Literal["interleaved", "split", "fairseq"]


def sinusoids(
    start: int,
    length: int,
    d_model: int,
    layout: Layout = "interleaved",
    *,
    device: torch.device | str | None = None,
) -> Float[Tensor, "{length} {d_model}"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(the same): Vaswani et al. 2017, 3.5.

    "split" puts all sines before all cosines (tensor2tensor, Marian); an odd width ends with a sine.
    "fairseq" does so too, but its i-th angle is pos / 10000^(i/(d_model/2 - 1)); an odd width ends with 0.
    """
    if layout == "fairseq":
        return _fairseq_sinusoids(start, length, d_model, device)
    angles = _angles(start, length, d_model, 10000.0, device)
    sines, cosines = angles.sin(), angles[:, : d_model // 2].cos()
    if layout == "split":
        return torch.cat([sines, cosines], dim=1).float()
    table = torch.empty(length, d_model, device=device)
    table[:, 0::2], table[:, 1::2] = sines, cosines
    return table


class SinusoidalPositions(nn.Module):
    """Fixed sinusoidal positions, for texts of any length (Vaswani et al. 2017, section 3.5).

    `layout` is the order of the features: sines and cosines "interleaved", as in the paper, or "split", all
    sines first; "fairseq" is split with slightly different frequencies. Positions are counted from `offset`.
    Those beyond `table_len` are computed in each call.
    """

    table: Tensor

    def __init__(
        self, d_model: int, layout: Layout = "interleaved", table_len: int = 1024, *, offset: int = 0
    ) -> None:
        super().__init__()
        refuse_other_sizes(d_model=d_model, table_len=table_len)
        refuse_other_sizes(least=0, offset=offset)
        refuse_unknown("layout", layout, get_args(Layout))
        self.d_model, self.offset = d_model, offset
        self.layout: Layout = layout
        self.register_buffer("table", sinusoids(offset, table_len, d_model, layout), persistent=False)

    def forward(self, start: int, length: int) -> Float[Tensor, "{length} d_model"]:
        """The vectors of positions `start` to `start + length - 1`."""
        if start + length <= self.table.size(0):
            return self.table[start : start + length]
        start += self.offset
        return sinusoids(start, length, self.d_model, self.layout, device=self.table.device).to(self.table)

    def at(self, positions: Int64[Tensor, "batch len"]) -> Float[Tensor, "batch len d_model"]:
        """The vectors of these positions, in any order; each position must be below the row's length."""
        return F.embedding(positions, self(0, positions.size(1)))


class LearnedPositions(nn.Module):
    """A learned vector for each of `max_positions` positions (Gehring et al. 2017).

    The first `offset` rows of the table are not used, as in RoBERTa and BART.
    """

    def __init__(self, d_model: int, max_positions: int, offset: int = 0) -> None:
        super().__init__()
        refuse_other_sizes(d_model=d_model, max_positions=max_positions)
        refuse_other_sizes(least=0, offset=offset)
        self.max_positions, self.offset = max_positions, offset
        self.weight = nn.Parameter(torch.empty(offset + max_positions, d_model))
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, start: int, length: int) -> Float[Tensor, "{length} d_model"]:
        """The vectors of positions `start` to `start + length - 1`.

        Raises:
            ValueError: a position is not below `max_positions`.
        """
        self._refuse_beyond(start + length)
        return self.weight[self.offset + start : self.offset + start + length]

    def at(self, positions: Int64[Tensor, "batch len"]) -> Float[Tensor, "batch len d_model"]:
        """The vectors of these positions, in any order; each position must be below the row's length."""
        if positions.size(1) > self.max_positions:  # a shorter row cannot have a position beyond them
            self._refuse_beyond(int(positions.max()) + 1)
        return F.embedding(positions + self.offset, self.weight)

    def _refuse_beyond(self, end: int) -> None:
        """Raise a ValueError if not all positions before `end` are learned."""
        if end > self.max_positions:
            raise ValueError(f"{end} positions, but only max_positions ({self.max_positions}) are learned")


class RotaryPositions(nn.Module):
    """Rotary position embedding: queries and keys are rotated by their positions (Su et al. 2021).

    So scores depend on the distance of query and key. The first `rotary_dim` features of a head are rotated
    (None: all of them). Features i and i + rotary_dim/2 are rotated together, by the angle pos /
    base^(2i/rotary_dim) (the half-split layout of GPT-NeoX and Llama). A `scaling` changes these angles.
    """

    sine: Tensor
    cosine: Tensor

    def __init__(
        self,
        d_head: int,
        base: float = 10000.0,
        table_len: int = 1024,
        *,
        rotary_dim: int | None = None,
        scaling: RotaryScaling | None = None,
    ) -> None:
        super().__init__()
        refuse_other_sizes(d_head=d_head, table_len=table_len)
        refuse_other_sizes(least=2, rotary_dim=rotary_dim)
        refuse_other_factors(base=base)
        self.d_head, self.base, self.scaling = d_head, base, scaling
        self.rotary_dim = d_head if rotary_dim is None else rotary_dim
        if self.rotary_dim % 2:
            name = "d_head" if rotary_dim is None else "rotary_dim"
            raise ValueError(
                f"rotary positions rotate pairs of features: {name} ({self.rotary_dim}) must be even"
            )
        if not 0 < self.rotary_dim <= d_head:
            raise ValueError(f"rotary_dim ({rotary_dim}) must be from 2 to d_head ({d_head})")
        limit = None if scaling is None else scaling.limit
        sine, cosine = self._computed(0, table_len if limit is None else min(limit, table_len), None)
        self.register_buffer("sine", sine, persistent=False)
        self.register_buffer("cosine", cosine, persistent=False)

    def forward(
        self, x: Float[Tensor, "batch heads len d_head"], start: int = 0
    ) -> Float[Tensor, "batch heads len d_head"]:
        """`x`, queries or keys, rotated by its positions, which begin at `start`."""
        return self.rotated(x, *self.sines_and_cosines(start, x.size(2)))

    def rotated(
        self,
        x: Float[Tensor, "batch heads len d_head"],
        sine: Float[Tensor, "*#lead len rotary_dim"],
        cosine: Float[Tensor, "*#lead len rotary_dim"],
    ) -> Float[Tensor, "batch heads len d_head"]:
        """`x` rotated by the angles of these sines and cosines, which may differ from row to row."""
        if self.rotary_dim == self.d_head:
            return _rotated_pairs(x, sine, cosine)
        pairs, same = x[..., : self.rotary_dim], x[..., self.rotary_dim :]
        return torch.cat([_rotated_pairs(pairs, sine, cosine), same], dim=-1)

    def sines_and_cosines(
        self, start: int, length: int
    ) -> tuple[Float[Tensor, "{length} rotary_dim"], Float[Tensor, "{length} rotary_dim"]]:
        """The sines and cosines for positions `start` to `start + length - 1`.

        Raises:
            ValueError: a position is beyond the limit of the `scaling`.
        """
        end = start + length
        if end <= self.sine.size(0):
            return self.sine[start:end], self.cosine[start:end]
        limit = None if self.scaling is None else self.scaling.limit
        if limit is not None and end > limit:
            raise ValueError(f"{end} positions, but their scaling has angles for {limit} only")
        sine, cosine = self._computed(start, length, self.sine.device)
        return sine.to(self.sine), cosine.to(self.sine)

    def _computed(self, start: int, length: int, device: torch.device | None) -> tuple[Tensor, Tensor]:
        """The sines and cosines of positions beyond the table, or of all those in it."""
        if self.scaling is None:
            angles, amplitude = _angles(start, length, self.rotary_dim, self.base, device), 1.0
        else:
            one = _angles(1, 1, self.rotary_dim, self.base, device)[0]
            positions = torch.arange(start, start + length, dtype=torch.float64, device=device)
            angles = positions[:, None] * self.scaling.frequencies(one, self.base)
            amplitude = self.scaling.amplitude
        angles = angles.repeat(1, 2)
        return (amplitude * angles.sin()).float(), (amplitude * angles.cos()).float()


class LinearBias(nn.Module):
    """ALiBi: a score decreases linearly with distance, by each head's own slope (Press et al. 2022).

    `directed` is for encoders, whose heads attend in both directions and would otherwise not distinguish a
    text from its reverse: the first half of the heads have their slopes for earlier positions, the other half
    the same slopes for later ones. In its other direction a head has the slope 1, steeper than all of them,
    and attends to little more than the next neighbours.
    """

    before: Tensor
    after: Tensor

    def __init__(self, num_heads: int, *, directed: bool = False) -> None:
        super().__init__()
        refuse_other_sizes(num_heads=num_heads)
        before = after = alibi_slopes(num_heads)
        if directed:
            half = (num_heads + 1) // 2
            slopes, steep = alibi_slopes(half), [1.0] * half
            before, after = (slopes + steep)[:num_heads], (steep + slopes)[:num_heads]
        self.register_buffer("before", torch.tensor(before), persistent=False)
        self.register_buffer("after", torch.tensor(after), persistent=False)

    def forward(self, tgt_len: int, src_len: int) -> Float[Tensor, "1 heads {tgt_len} {src_len}"]:
        """The queries are the last `tgt_len` of `src_len` positions."""
        offsets = _offsets(tgt_len, src_len, self.before.device)
        slopes = torch.where(offsets > 0, self.after[:, None, None], self.before[:, None, None])
        return (-slopes * offsets.abs())[None]


def alibi_slopes(num_heads: int) -> list[float]:
    """The slopes of n heads: 2^(-8/n), 2^(-16/n), ...

    If n is not a power of two: those of the next lower power of two, then every other one of the next higher
    power, as in the paper's code.
    """
    power = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    between = [2 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * power, 2)]
    return (slopes + between)[:num_heads]


class BucketBias(nn.Module):
    """T5's relative positions: a learned score for each head and bucket of distances (Raffel et al. 2020).

    Half of the buckets of a direction hold one distance each. The others grow logarithmically up to
    `max_distance`; all larger distances are in the last one.
    """

    def __init__(
        self, num_heads: int, *, bidirectional: bool, num_buckets: int = 32, max_distance: int = 128
    ) -> None:
        super().__init__()
        refuse_other_sizes(num_heads=num_heads, num_buckets=num_buckets, max_distance=max_distance)
        self.bidirectional, self.num_buckets, self.max_distance = bidirectional, num_buckets, max_distance
        self.weight = nn.Parameter(torch.empty(num_buckets, num_heads))
        nn.init.normal_(self.weight, std=num_heads**-0.5)

    def forward(self, tgt_len: int, src_len: int) -> Float[Tensor, "1 heads {tgt_len} {src_len}"]:
        """The queries are the last `tgt_len` of `src_len` positions."""
        buckets = self.buckets(_offsets(tgt_len, src_len, self.weight.device))
        return self.weight[buckets].permute(2, 0, 1)[None]

    def buckets(self, offsets: Int[Tensor, "tgt_len src_len"]) -> Int[Tensor, "tgt_len src_len"]:
        """The bucket of each offset, key position minus query position."""
        buckets = self.num_buckets
        if self.bidirectional:
            buckets //= 2
            ahead = (offsets > 0) * buckets
            distance = offsets.abs()
        else:
            ahead = torch.zeros_like(offsets)
            distance = (-offsets).clamp(min=0)
        exact = buckets // 2
        growth = (distance.clamp(min=1) / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
        return ahead + torch.where(distance < exact, distance, far)


def positions_in(documents: Int64[Tensor, "batch len"]) -> Int64[Tensor, "batch len"]:
    """The position of each token within its document; a document's tokens are contiguous.

    Only encodings that are added need it. The others use distances, which are the same within a document.
    """
    index = torch.arange(documents.size(1), device=documents.device).expand_as(documents)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return index - index.where(begins, 0).cummax(dim=1).values


def _fairseq_sinusoids(
    start: int, length: int, d_model: int, device: torch.device | str | None
) -> Float[Tensor, "{length} {d_model}"]:
    half = d_model // 2
    exponents = torch.arange(half, dtype=torch.float64, device=device) / max(1, half - 1)
    positions = torch.arange(start, start + length, dtype=torch.float64, device=device)
    angles = positions[:, None] / 10000.0**exponents
    return F.pad(torch.cat([angles.sin(), angles.cos()], dim=1), (0, d_model % 2)).float()


def _rotated_pairs(x: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """`x` with each feature of its first half rotated together with that of the second."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-second, first], dim=-1) * sine


def _angles(
    start: int, length: int, width: int, base: float, device: torch.device | str | None
) -> Float[Tensor, "{length} pairs"]:
    """pos / base^(2i/width) for each position and pair of features, in double precision."""
    positions = torch.arange(start, start + length, dtype=torch.float64, device=device)
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device=device) / width
    return positions[:, None] / base**exponents


def _offsets(tgt_len: int, src_len: int, device: torch.device) -> Int[Tensor, "{tgt_len} {src_len}"]:
    """Key position minus query position; the queries are at the last positions."""
    keys = torch.arange(src_len, device=device)
    return keys - keys[src_len - tgt_len :, None]
