"""A decoder's next step in a straight line: `extend` for one new token a row, in fewer operations.

A step of a few rows is some hundred small operations, and half of its time is spent on the way from module
to module. Here the decoder is read once into functions that follow one another; what is not of the usual
kind (norms of queries) is called as it stands.

Weights are kept a second time, as products of few rows want them: in panels for the kernels of `native/`,
which give a row the same bits in any company; where there are none, transposed, with which PyTorch's
products are faster (8 rows of 256 with 8,000 classes: 0.5 ms against 1.0 on one core of a Xeon with AVX-512),
and give a row the same bits from 2 rows on, where those with weights as they lie change between 8 rows and 16
(MKL, AVX-512).
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import relu as rectified

from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import DecoderBlock, EncoderBlock, PostNorm, PreNorm, SandwichNorm
from regard.layers.cache import DecoderCache, KeyValue, KeyValueCache, StackCache
from regard.layers.feedforward import FeedForward, GatedFeedForward
from regard.layers.int8 import Int8Linear, to_int8
from regard.layers.kernels import attention
from regard.layers.norm import RMSNorm
from regard.layers.stacked import StackedLinear
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.native import kernels

WIDE = 768  # features; more of them (1,024 were tried) MKL adds up in another order where rows are many,
AT_ONCE = 128  # so there are so many rows in a product at most (160 were still equal, 192 were not)

ROWS = 4  # that PyTorch's products, and what else is in a step, make equal to the bit in any multiple

Map = Callable[[Tensor], Tensor]  # rows of features -> rows of features
AddingMap = Callable[..., Tensor]  # the same; a second argument, a residual, is added to what comes out


Likeliest = tuple[Float[Tensor, "rows size"], Int64[Tensor, "rows size"], Float[Tensor, " rows"]]


@dataclass(frozen=True)
class Step:
    """From the last ids and a cache of the model, which it goes on, to what is said of the next ids.

    `multiple`: rows in multiples of so many have the same bits in any company.
    """

    states: Callable[[Int64[Tensor, " rows"], Any], Float[Tensor, "rows d_model"]]
    output: AddingMap
    multiple: int

    def __call__(self, ids: Int64[Tensor, " rows"], cache: Any) -> Float[Tensor, "rows vocab"]:
        """The logits."""
        return self.output(self.states(ids, cache))

    @property
    def ranks(self) -> bool:
        """Whether it can tell the likeliest ids without all others."""
        return isinstance(self.output, kernels.PackedLinear)

    def likeliest(
        self, ids: Int64[Tensor, " rows"], cache: Any, size: int, asked: Int64[Tensor, " rows"]
    ) -> Likeliest:
        """The `size` likeliest ids (log-probabilities and ids, the likeliest first), and that of `asked`."""
        assert isinstance(self.output, kernels.PackedLinear)
        return self.output.likeliest(self.states(ids, cache), size, asked)


_made: "weakref.WeakKeyDictionary[nn.Module, tuple[list[int], Step | None]]" = weakref.WeakKeyDictionary()


def straight(model: nn.Module) -> Step | None:
    """The step of `model`, made once for its weights as they are now; None where it has other parts."""
    if not isinstance(model, EncoderDecoder | DecoderOnly) or model.training or model.device.type != "cpu":
        return None
    state = _state(model)
    made = _made.get(model)
    if made is None or made[0] != state:
        made = _made[model] = (state, _step(model) if _is_usual(model) else None)
    return made[1]


def round_steps(model: nn.Module) -> int:
    """Put int8 into all maps of a step, if the kernels can multiply it; how many there are."""
    if (
        not kernels.has_int8()
        or not isinstance(model, EncoderDecoder | DecoderOnly)
        or straight(model) is None
    ):
        return 0
    part = model.decoder if isinstance(model, EncoderDecoder) else model
    return to_int8(part, least=0)


def _state(model: EncoderDecoder | DecoderOnly) -> list[int]:
    """Changes when weights do, when a part is put in the place of another, and when somebody listens."""
    state = [number for each in model.parameters() for number in (each.data_ptr(), each._version)]
    for module in model.modules():
        state += [id(module), len(module._forward_hooks), len(module._forward_pre_hooks)]
        if isinstance(module, MultiHeadAttention):
            state.append(id(module.attend))
    return state


def _is_usual(model: EncoderDecoder | DecoderOnly) -> bool:
    """Whether the decoder is made of parts that are known here, and nobody listens to them."""
    decoder = model.decoder if isinstance(model, EncoderDecoder) else model
    return (
        decoder.position_bias is None
        and not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
        and all(
            type(module) in (MultiHeadAttention, SelfAttention) and module.attend is attention
            for module in decoder.modules()
            if isinstance(module, MultiHeadAttention)
        )
    )


def _step(model: EncoderDecoder | DecoderOnly) -> Step:
    states = _read_with_memory(model) if isinstance(model, EncoderDecoder) else _read(model)
    return Step(states, _linear(model.output), 1 if _has_kernels(model) else ROWS)


def _has_kernels(module: nn.Module) -> bool:
    """Whether `native/` computes with such weights on this machine."""
    return kernels.available() and all(weight.dtype == torch.float32 for weight in module.parameters())


def _read(model: DecoderOnly) -> Callable[[Tensor, StackCache], Tensor]:
    blocks, enter, leave = [_block(block) for block in model.blocks], model.input, _norm(model.norm)

    def states(ids: Tensor, cache: StackCache) -> Tensor:
        x = enter(ids[:, None], cache.length)[:, 0]
        for block, held in zip(blocks, cache.layers, strict=True):
            x = block(x, held, None, None)
        return leave(x)

    return states


def _read_with_memory(model: EncoderDecoder) -> Callable[[Tensor, DecoderCache], Tensor]:
    decoder, scale = model.decoder, model.decoder.scale
    blocks, enter, leave = [_block(block) for block in decoder.blocks], decoder.input, _norm(decoder.norm)

    def states(ids: Tensor, cache: DecoderCache) -> Tensor:
        x = enter(ids[:, None], cache.length)[:, 0]
        hidden = torch.zeros(cache.memory_mask.shape, dtype=x.dtype).masked_fill_(
            cache.memory_mask.logical_not(), -torch.inf
        )
        for block, memory, held in zip(blocks, cache.memories, cache.targets, strict=True):
            x = block(x, held, memory, hidden)
        x = leave(x)
        return x if scale == 1 else x * scale

    return states


def _block(block: nn.Module) -> Callable[[Tensor, KeyValueCache, KeyValue | None, Tensor | None], Tensor]:
    """The sub-layers of a block, one after the other."""
    assert isinstance(block, EncoderBlock | DecoderBlock)
    to_itself = _around(block.around_self_attention, _self_attention(block.self_attention))
    onward = _around(block.around_feed_forward, _feed_forward(block.feed_forward))
    if isinstance(block, EncoderBlock):
        return lambda x, held, memory, hidden: onward(to_itself(x, held))
    to_memory = _around(block.around_cross_attention, _cross_attention(block.cross_attention))
    return lambda x, held, memory, hidden: onward(to_memory(to_itself(x, held), memory, hidden))


def _around(around: nn.Module, sublayer: AddingMap) -> Callable[..., Tensor]:
    """Residual and norm; there is no dropout in decoding."""
    match around:
        case PostNorm():
            norm = _norm(around.norm)
            return lambda x, *seen: norm(sublayer(x, x, *seen))
        case PreNorm():
            norm = _norm(around.norm)
            return lambda x, *seen: sublayer(norm(x), x, *seen)
        case SandwichNorm():
            before, after = _norm(around.norm_before), _norm(around.norm_after)
            return lambda x, *seen: x + after(sublayer(before(x), None, *seen))
    raise TypeError(f"{type(around).__name__} is no way around a sub-layer")


def _self_attention(module: SelfAttention) -> Callable[[Tensor, Tensor | None, KeyValueCache], Tensor]:
    project, output, mix = _linear(module.query_key_value), _linear(module.output), _mixing(module)
    heads, groups, d_head = module.num_heads, module.num_kv_heads, module.d_head
    rotary, query_norm, key_norm = module.rotary, module.query_norm, module.key_norm

    def look(x: Tensor, plus: Tensor | None, cache: KeyValueCache) -> Tensor:
        parts = project(x).view(len(x), heads + 2 * groups, 1, d_head)
        turned, value = parts[:, : heads + groups], parts[:, heads + groups :]
        if query_norm is not None and key_norm is not None:
            turned = torch.cat([query_norm(turned[:, :heads]), key_norm(turned[:, heads:])], dim=1)
        if rotary is not None:
            turned = rotary(turned, cache.length)
        return output(mix(turned[:, :heads], cache.append(turned[:, heads:], value), None), plus)

    return look


def _cross_attention(
    module: MultiHeadAttention,
) -> Callable[[Tensor, Tensor | None, KeyValue, Tensor], Tensor]:
    project, output, mix = _linear(module.query), _linear(module.output), _mixing(module)
    return lambda x, plus, memory, hidden: output(mix(project(x), memory, hidden), plus)


def _mixing(module: MultiHeadAttention) -> Callable[[Tensor, KeyValue, Tensor | None], Tensor]:
    """One query a head with all keys: the heads that share keys are a matrix of queries."""
    groups, share, d_head = module.num_kv_heads, module.num_heads // module.num_kv_heads, module.d_head
    scale = d_head**-0.5 if module.scale is None else module.scale

    def mix(query: Tensor, seen: KeyValue, hidden: Tensor | None) -> Tensor:
        query = query.reshape(len(query), groups, share, d_head)
        scores = (query @ seen.key.transpose(-2, -1)).mul_(scale)
        weights = (scores if hidden is None else scores.add_(hidden)).softmax(dim=-1)
        return (weights @ seen.value).view(len(query), -1)

    def mix_by_kernel(query: Tensor, seen: KeyValue, hidden: Tensor | None) -> Tensor:
        return kernels.attend(query.reshape(len(query), groups * share, d_head), *seen, hidden, scale)

    return mix_by_kernel if _has_kernels(module) else mix


def _feed_forward(module: nn.Module) -> AddingMap:
    if type(module) is FeedForward:
        activation = module.activation
        if activation is rectified:
            inner, outer = _linear(module.inner, relu=True), _linear(module.outer)
            return lambda x, plus=None: outer(inner(x), plus)
        inner, outer = _linear(module.inner), _linear(module.outer)
        return lambda x, plus=None: outer(activation(inner(x)), plus)
    if type(module) is GatedFeedForward:
        inner, outer, activation = _linear(module.gate_inner), _linear(module.outer), module.activation

        def gated(x: Tensor, plus: Tensor | None = None) -> Tensor:
            gate, value = inner(x).chunk(2, dim=-1)
            return outer(activation(gate).mul_(value), plus)

        return gated
    return _adding(module)


def _norm(module: nn.Module) -> Map:
    if type(module) is nn.LayerNorm:
        shape, weight, bias, eps = module.normalized_shape, module.weight, module.bias, module.eps
        return lambda x: torch.layer_norm(x, shape, weight, bias, eps)
    if type(module) is RMSNorm:
        shape, weight, eps = module.normalized_shape, module.weight, module.eps
        return lambda x: torch.rms_norm(x, shape, weight, eps)
    return module


def _linear(module: nn.Module, relu: bool = False) -> AddingMap:
    """The map, and ReLU after it if wished, with its weight in panels or transposed."""
    if type(module) is Int8Linear and kernels.has_int8():
        return kernels.PackedLinear(module.weight, module.bias, scale=module.weight_scale, relu=relu)
    if type(module) not in (nn.Linear, StackedLinear):
        return _adding(module, relu)
    assert isinstance(module, nn.Linear)
    weight = module.weight.detach()
    bias = None if module.bias is None else module.bias.detach()
    if _has_kernels(module):
        return kernels.PackedLinear(weight, bias, relu=relu)
    return _adding(_transposed(weight, bias), relu)


def _transposed(weight: Tensor, bias: Tensor | None) -> Map:
    weight = weight.t().contiguous()

    def product(x: Tensor) -> Tensor:
        return torch.mm(x, weight) if bias is None else torch.addmm(bias, x, weight)

    return _in_pieces(product) if len(weight) > WIDE else product


def _adding(plain: Map, relu: bool = False) -> AddingMap:
    def product(x: Tensor, plus: Tensor | None = None) -> Tensor:
        out = plain(x) if plus is None else plain(x).add_(plus)
        return out.relu_() if relu else out

    return product


def _in_pieces(product: Map) -> Map:
    return lambda x: (
        product(x) if len(x) <= AT_ONCE else torch.cat([product(part) for part in x.split(AT_ONCE)])
    )
