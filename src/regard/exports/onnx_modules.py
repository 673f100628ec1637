"""A copy of a model that torch's exporter can trace for any number of rows and positions.

Three parts of a model branch on sizes, which a graph cannot: the attention that takes another kernel for a
single query, tables of positions that end, and the cache that grows in place. Each has another form here that
computes the same.
"""

import copy
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor, nn

from regard.layers.attention import MultiHeadAttention
from regard.layers.cache import DecoderCache, KeyValue, KeyValueCache, StackCache
from regard.layers.kernels import kernel_of
from regard.layers.positions import (
    BucketBias,
    Layout,
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
)
from regard.layers.scaled_dot_product import attention, plain_attention

AnyModel = TypeVar("AnyModel", bound=nn.Module)


def traceable(model: AnyModel) -> AnyModel:
    """The copy. A part that is not one of regard's own stays as it is."""
    copied = copy.deepcopy(model).float().eval()
    for parent in list(copied.modules()):
        if isinstance(parent, MultiHeadAttention) and kernel_of(parent) is attention:
            parent.attend = plain_attention  # soft-capped attention is plain already
        for name, child in parent.named_children():
            if (form := _traceable_form(child)) is not None:
                setattr(parent, name, form)
    return copied


def _traceable_form(module: nn.Module) -> nn.Module | None:
    """Another form of a module of exactly these types."""
    if type(module) is SinusoidalPositions:
        return ComputedSinusoids(module)
    if type(module) is RotaryPositions:
        return ComputedRotation(module)
    if type(module) is LearnedPositions:
        return UncheckedPositions(module)
    if type(module) is BucketBias:
        return TabulatedBias(module)
    return None


class GrownCache(KeyValueCache):
    """Keys and values of earlier positions, to which others are joined; `pair` has all of them."""

    def __init__(self, pair: KeyValue) -> None:
        super().__init__()
        self.pair = pair
        self.length = pair.key.size(2)

    @property
    def held(self) -> int:
        return self.length

    def append(self, key: Tensor, value: Tensor) -> KeyValue:
        self.pair = KeyValue(torch.cat([self.pair.key, key], dim=2), torch.cat([self.pair.value, value], 2))
        return self.pair


class GrownStack(StackCache):
    """The caches of a stack. All positions are kept; a window is in the mask."""

    def __init__(self, layers: list[Any]) -> None:
        super().__init__(())
        self.layers = layers


class GrownDecoderCache(DecoderCache):
    """The caches of a decoder: keys and values of the memory, its mask, and a `GrownCache` for each block."""

    def __init__(self, memories: list[KeyValue], memory_mask: Tensor, targets: list[Any]) -> None:
        self.memories, self.memory_mask, self.targets = memories, memory_mask, targets


class ComputedSinusoids(nn.Module):
    """`SinusoidalPositions` of any length, from their formula alone."""

    divisors: Tensor

    def __init__(self, positions: SinusoidalPositions) -> None:
        super().__init__()
        self.d_model, self.layout, self.offset = positions.d_model, positions.layout, positions.offset
        self.register_buffer("divisors", _sinusoid_divisors(self.d_model, self.layout))

    def forward(self, start: int, length: int) -> Float[Tensor, "length d_model"]:
        angles = _positions(start + self.offset, length) / self.divisors
        sines, cosines = angles.sin(), angles.cos()
        if self.layout == "fairseq":
            return F.pad(torch.cat([sines, cosines], dim=1), (0, self.d_model % 2)).float()
        if self.layout == "split":
            return torch.cat([sines, cosines[:, : self.d_model // 2]], dim=1).float()
        return torch.stack([sines, cosines], dim=2).flatten(1)[:, : self.d_model].float()


class ComputedRotation(RotaryPositions):
    """`RotaryPositions` of any length, from their formula alone."""

    divisors: Tensor

    def __init__(self, of: RotaryPositions) -> None:
        super().__init__(of.d_head, of.base, table_len=0, rotary_dim=of.rotary_dim, scaling=of.scaling)
        divisors = _divisors(of.rotary_dim, of.base)
        if of.scaling is not None:
            divisors = 1 / of.scaling.frequencies(1 / divisors, of.base)
        self.register_buffer("divisors", divisors)

    def sines_and_cosines(self, start: int, length: int) -> tuple[Tensor, Tensor]:
        angles = (_positions(start, length) / self.divisors).repeat(1, 2)
        amplitude = 1.0 if self.scaling is None else self.scaling.amplitude
        return (amplitude * angles.sin()).float(), (amplitude * angles.cos()).float()


class UncheckedPositions(nn.Module):
    """`LearnedPositions` without an error for a position beyond the last."""

    def __init__(self, positions: LearnedPositions) -> None:
        super().__init__()
        self.weight, self.offset = positions.weight, positions.offset

    def forward(self, start: int, length: int) -> Float[Tensor, "length d_model"]:
        return self.weight[torch.arange(length) + (start + self.offset)]


class TabulatedBias(nn.Module):
    """`BucketBias` with a table of the bias of each distance: all beyond `limit` are in the last bucket.

    The buckets are logarithms cut to integers, which another library may cut differently.
    """

    table: Tensor

    def __init__(self, bias: BucketBias) -> None:
        super().__init__()
        self.limit = bias.max_distance
        offsets = torch.arange(-self.limit, self.limit + 1)
        self.register_buffer("table", bias.weight.detach()[bias.buckets(offsets[None])[0]])

    def forward(self, tgt_len: int, src_len: int) -> Float[Tensor, "1 heads tgt_len src_len"]:
        keys = torch.arange(src_len)
        queries = torch.arange(tgt_len) + (src_len - tgt_len)
        offsets = (keys - queries[:, None]).clamp(-self.limit, self.limit) + self.limit
        return self.table[offsets].permute(2, 0, 1)[None]


def _sinusoid_divisors(d_model: int, layout: Layout) -> Float64[Tensor, " pairs"]:
    if layout != "fairseq":
        return _divisors(d_model, 10000.0)
    half = d_model // 2
    return 10000.0 ** (torch.arange(half, dtype=torch.float64) / max(1, half - 1))


def _divisors(width: int, base: float) -> Float64[Tensor, " pairs"]:
    """base^(2i/width): the angle of a position is the position divided by it, in double precision."""
    return base ** (torch.arange(0, width, 2, dtype=torch.float64) / width)


def _positions(start: int, length: int) -> Float64[Tensor, "length 1"]:
    return (torch.arange(length) + start).to(torch.float64)[:, None]
