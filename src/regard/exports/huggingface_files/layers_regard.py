"""The layers of modeling_regard.py."""

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.cache_utils import EncoderDecoderCache

from .configuration_regard import RegardConfig

GELU_TANH = partial(F.gelu, approximate="tanh")


def quick_gelu(x: Tensor) -> Tensor:
    """x * sigmoid(1.702 x), an approximation of gelu."""
    return x * torch.sigmoid(1.702 * x)


ACTIVATIONS = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": GELU_TANH,
    "quick_gelu": quick_gelu,
    "silu": F.silu,
}
GATES = {"swiglu": F.silu, "geglu": F.gelu, "geglu_tanh": GELU_TANH}


def norm(config: RegardConfig, width: int) -> nn.Module:
    """A layer norm or an RMS norm."""
    given = config.settings
    if given["norm"] == "layer":
        eps = 1e-5 if given["norm_eps"] is None else given["norm_eps"]
        return nn.LayerNorm(width, eps=eps, bias=given["bias"])
    return nn.RMSNorm(width, eps=1e-6 if given["norm_eps"] is None else given["norm_eps"])


def head_width(config: RegardConfig) -> int:
    """The width of a head."""
    return config.settings["head_dim"] or config.settings["d_model"] // config.settings["num_heads"]


def sinusoids(config: RegardConfig, positions: Tensor) -> Tensor:
    """The vectors of these positions."""
    width, layout = config.settings["d_model"], config.settings["position_layout"]
    if layout == "fairseq":
        half = width // 2
        positions = positions + config.settings["position_offset"]
        exponents = torch.arange(half, dtype=torch.float64, device=positions.device) / max(1, half - 1)
        angles = positions[..., None] / 10000.0**exponents
        return F.pad(torch.cat([angles.sin(), angles.cos()], dim=-1), (0, width % 2)).float()
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / width
    angles = positions[..., None] / 10000.0**exponents
    sines, cosines = angles.sin(), angles[..., : width // 2].cos()
    if layout == "split":
        return torch.cat([sines, cosines], dim=-1).float()
    table = torch.empty(*positions.shape, width, device=positions.device)
    table[..., 0::2], table[..., 1::2] = sines, cosines
    return table


class Weight(nn.Module):
    """A table of vectors."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, width))


class Input(nn.Module):
    """Embeddings plus added positions, and an optional norm."""

    def __init__(self, config: RegardConfig, vocab_size: int, normed: bool) -> None:
        super().__init__()
        given = config.settings
        self.config = config
        self.embedding = nn.Embedding(vocab_size, given["d_model"])
        self.scale = math.sqrt(given["d_model"]) if given["scaled_embedding"] else 1.0
        if given["positions"] == "learned":
            self.positions = Weight(given["position_offset"] + given["max_positions"], given["d_model"])
        self.norm = norm(config, given["d_model"]) if normed else nn.Identity()
        self.dropout = nn.Dropout(given["dropout"])

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """The states of ids at these positions."""
        given = self.config.settings
        x = self.embedding(ids) * self.scale
        if given["positions"] == "learned":
            if ids.size(1) and int(positions.max()) >= given["max_positions"]:
                raise ValueError(f"only {given['max_positions']} positions are learned")
            x = x + F.embedding(positions + given["position_offset"], self.positions.weight)
        elif given["positions"] == "sinusoidal":
            x = x + sinusoids(self.config, positions).to(x)
        return self.dropout(self.norm(x))


class Attention(nn.Module):
    """Multi-head attention; queries, keys and values of a self-attention have one matrix."""

    def __init__(self, config: RegardConfig, layer: int, is_self: bool) -> None:
        super().__init__()
        given = config.settings
        self.config, self.layer = config, layer
        self.heads = given["num_heads"]
        self.kv_heads, self.width = given["num_kv_heads"] or self.heads, head_width(config)
        self.scale = self.width**-0.5 if given["attention_scale"] is None else given["attention_scale"]
        biases = given["attention_bias"] or ("all" if given["bias"] else "none")
        d_model, bias = given["d_model"], biases != "none"
        sizes = self.heads * self.width, self.kv_heads * self.width
        if is_self:
            self.query_key_value = nn.Linear(d_model, sizes[0] + 2 * sizes[1], bias)
        else:
            self.query = nn.Linear(d_model, sizes[0], bias)
            self.key, self.value = (nn.Linear(d_model, sizes[1], bias) for _ in range(2))
        self.output = nn.Linear(sizes[0], d_model, biases == "all")
        if is_self and given["qk_norm"]:
            self.query_norm, self.key_norm = (norm(config, self.width) for _ in range(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.width)).transpose(1, 2)

    def _own(self, x: Tensor, rotary: tuple[Tensor, Tensor] | None, cache: Any) -> tuple[Tensor, ...]:
        """Queries of `x`, keys and values of all positions."""
        sizes = [count * self.width for count in (self.heads, self.kv_heads, self.kv_heads)]
        query, key, value = map(self._heads, self.query_key_value(x).split(sizes, dim=-1))
        if self.config.settings["qk_norm"]:
            query, key = self.query_norm(query), self.key_norm(key)
        if rotary is not None:
            query, key = rotated(query, rotary), rotated(key, rotary)
        if cache is not None:
            key, value = cache.update(key, value, self.layer)
        return query, key, value

    def _crossed(self, x: Tensor, memory: Tensor, cache: Any) -> tuple[Tensor, ...]:
        """Queries of `x`, keys and values of the memory, which a cache has after the first step."""
        if cache is not None and cache.is_updated.get(self.layer):
            held = cache.cross_attention_cache.layers[self.layer]
            return self._heads(self.query(x)), held.keys, held.values
        key, value = self._heads(self.key(memory)), self._heads(self.value(memory))
        if cache is not None:
            key, value = cache.cross_attention_cache.update(key, value, self.layer)
            cache.is_updated[self.layer] = True
        return self._heads(self.query(x)), key, value

    def forward(
        self,
        x: Tensor,
        scores: Tensor,
        memory: Tensor | None,
        rotary: tuple[Tensor, Tensor] | None,
        cache: Any,
    ) -> Tensor:
        """`scores` are added to the scores: position biases, and a very low number where none may attend."""
        query, key, value = self._own(x, rotary, cache) if memory is None else self._crossed(x, memory, cache)
        times = self.heads // self.kv_heads
        if times > 1:
            key, value = key.repeat_interleave(times, dim=1), value.repeat_interleave(times, dim=1)
        dropout = self.config.settings["attention_dropout"] if self.training else 0.0
        mixed = F.scaled_dot_product_attention(
            query, key, value, scores.to(query.dtype), dropout, scale=self.scale
        )
        return self.output(mixed.transpose(1, 2).flatten(2))


def rotated(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """The first features of each head, rotated by its position."""
    sine, cosine = (each.to(x.dtype) for each in rotary)
    turned, same = x[..., : sine.size(-1)], x[..., sine.size(-1) :]
    first, second = turned.chunk(2, dim=-1)
    return torch.cat([turned * cosine + torch.cat([-second, first], dim=-1) * sine, same], dim=-1)


class FeedForward(nn.Module):
    """A feed-forward network, gated or not."""

    def __init__(self, config: RegardConfig) -> None:
        super().__init__()
        given = config.settings
        self.kind, d_ff, d_model = given["activation"], given["d_ff"], given["d_model"]
        bias = given["feed_forward_bias"]
        if self.kind in GATES:
            self.gate_inner = nn.Linear(d_model, 2 * d_ff, bool(bias))
        else:
            self.inner = nn.Linear(d_model, d_ff, given["bias"] if bias is None else bias)
        self.outer = nn.Linear(
            d_ff, d_model, bool(bias) if bias is not None or self.kind in GATES else given["bias"]
        )
        self.dropout = nn.Dropout(given["activation_dropout"])

    def forward(self, x: Tensor) -> Tensor:
        if self.kind in GATES:
            gate, inner = self.gate_inner(x).chunk(2, dim=-1)
            return self.outer(self.dropout(GATES[self.kind](gate) * inner))
        return self.outer(self.dropout(ACTIVATIONS[self.kind](self.inner(x))))


class Residual(nn.Module):
    """A residual connection with the norm after, before, or on both sides."""

    def __init__(self, config: RegardConfig) -> None:
        super().__init__()
        self.place, width = config.settings["norm_position"], config.settings["d_model"]
        if self.place == "sandwich":
            self.norm_before, self.norm_after = norm(config, width), norm(config, width)
        else:
            self.norm = norm(config, width)
        self.dropout = nn.Dropout(config.settings["dropout"])

    def forward(self, x: Tensor, sublayer: Any) -> Tensor:
        if self.place == "post":
            return self.norm(x + self.dropout(sublayer(x)))
        if self.place == "pre":
            return x + self.dropout(sublayer(self.norm(x)))
        return x + self.dropout(self.norm_after(sublayer(self.norm_before(x))))


class Block(nn.Module):
    """Self-attention, cross-attention if it reads a memory, and a feed-forward network."""

    def __init__(self, config: RegardConfig, layer: int, crosses: bool) -> None:
        super().__init__()
        self.self_attention, self.around_self_attention = Attention(config, layer, True), Residual(config)
        self.crosses = crosses
        if crosses:
            self.cross_attention = Attention(config, layer, False)
            self.around_cross_attention = Residual(config)
        self.feed_forward, self.around_feed_forward = FeedForward(config), Residual(config)

    def forward(
        self, x: Tensor, scores: Tensor, rotary: Any, cache: Any, memory: Any, memory_scores: Any
    ) -> Tensor:
        own = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
        x = self.around_self_attention(x, lambda y: self.self_attention(y, scores, None, rotary, own))
        if self.crosses:
            x = self.around_cross_attention(
                x, lambda y: self.cross_attention(y, memory_scores, memory, None, cache)
            )
        return self.around_feed_forward(x, self.feed_forward)


class BucketBias(nn.Module):
    """T5's relative positions: a learned score for each head and bucket of distances."""

    def __init__(self, config: RegardConfig, bidirectional: bool) -> None:
        super().__init__()
        given = config.settings
        self.weight = nn.Parameter(torch.empty(given["position_buckets"], given["num_heads"]))
        self.bidirectional, self.longest = bidirectional, given["position_distance"]

    def forward(self, offsets: Tensor) -> Tensor:
        buckets = len(self.weight)
        if self.bidirectional:
            buckets //= 2
            ahead, distance = (offsets > 0) * buckets, offsets.abs()
        else:
            ahead, distance = torch.zeros_like(offsets), (-offsets).clamp(min=0)
        exact = buckets // 2
        growth = (distance.clamp(min=1) / exact).log() / math.log(self.longest / exact)
        far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
        return self.weight[ahead + torch.where(distance < exact, distance, far)].permute(2, 0, 1)[None]


def slopes(count: int) -> list[float]:
    """The slopes of ALiBi's heads."""
    power = 2 ** math.floor(math.log2(count))
    found = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    return (found + [2 ** (-8 * (i + 1) / (2 * power)) for i in range(0, 2 * power, 2)])[:count]


def linear_bias(config: RegardConfig, offsets: Tensor, bidirectional: bool) -> Tensor:
    """ALiBi: scores decrease with distance; in an encoder each half of the heads looks one way."""
    heads = config.settings["num_heads"]
    before = after = slopes(heads)
    if bidirectional and config.settings["alibi"] == "directed":
        half = slopes((heads + 1) // 2)
        steep = [1.0] * len(half)
        before, after = (half + steep)[:heads], (steep + half)[:heads]
    tables = (torch.tensor(each, device=offsets.device)[:, None, None] for each in (after, before))
    return (-torch.where(offsets > 0, *tables) * offsets.abs())[None]


class Stack(nn.Module):
    """Blocks with their input; causal unless it is an encoder."""

    def __init__(
        self, config: RegardConfig, vocab_size: int, layers: int, *, encodes: bool, crosses: bool
    ) -> None:
        super().__init__()
        given = config.settings
        self.config, self.encodes = config, encodes
        self.input = Input(config, vocab_size, given.get("embedding_norm", False))
        if given["positions"] == "t5":
            self.position_bias = BucketBias(config, encodes)
        self.blocks = nn.ModuleList(Block(config, layer, crosses) for layer in range(layers))
        self.norm = nn.Identity() if given["norm_position"] == "post" else norm(config, given["d_model"])

    def forward(
        self, ids: Tensor, mask: Tensor | None, cache: Any = None, memory: Any = None, memory_mask: Any = None
    ) -> Tensor:
        """The states of ids, which follow those of the cache; masks are 1 for tokens and 0 for padding."""
        held = 0 if cache is None else int(cache.get_seq_length())
        total = held + ids.size(1)
        if mask is None:
            mask = torch.ones(len(ids), total, dtype=torch.long, device=ids.device)
        positions = (mask.long().cumsum(-1) - 1).clamp(min=0)[:, held:]
        x = self.input(ids, positions)
        scores = self._scores(mask[:, None, None, :] > 0, held, total, x)
        memory_scores = None if memory is None else hidden(memory_mask[:, None, None, :] > 0, x)
        for block in self.blocks:
            x = block(x, scores, self._rotary(positions), cache, memory, memory_scores)
        return self.norm(x)

    def _scores(self, allowed: Tensor, held: int, total: int, x: Tensor) -> Tensor:
        keys = torch.arange(total, device=x.device)
        offsets = keys - keys[held:, None]
        given = self.config.settings
        if not self.encodes:
            allowed = allowed & (offsets <= 0)
            if given.get("window") is not None:
                allowed = allowed & (offsets > -given["window"])
        scores = hidden(allowed, x)
        if given["positions"] == "t5":
            scores = scores + self.position_bias(offsets)
        elif given["positions"] == "alibi":
            scores = scores + linear_bias(self.config, offsets, self.encodes)
        return scores

    def _rotary(self, positions: Tensor) -> tuple[Tensor, Tensor] | None:
        if self.config.rotary is None:
            return None
        given = self.config.rotary
        frequencies = torch.tensor(given["frequencies"], dtype=torch.float64, device=positions.device)
        angles = (positions[..., None] * frequencies).repeat(1, 1, 2)[:, None]
        amplitude = given["amplitude"]
        return (amplitude * angles.sin()).float(), (amplitude * angles.cos()).float()


def hidden(allowed: Tensor, x: Tensor) -> Tensor:
    """Zero where a position may attend, else the lowest number, halved so that a bias can be added."""
    low = torch.finfo(x.dtype).min / 2
    return torch.zeros(allowed.shape, dtype=x.dtype, device=x.device).masked_fill(~allowed, low)
