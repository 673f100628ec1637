"""A decoder's next step in a straight line: `extend` for one new token a row, in fewer operations.

A step of a few rows is some hundred small operations, and half of its time is spent on the way from module
to module. Here the decoder is read once into functions that follow one another, and where there are kernels
for all of them into a plan, which is run by one call; what is not of the usual kind is called as it stands.

Weights are kept a second time, as products of few rows want them: in panels for the kernels of `native/`,
which give a row the same bits in any company; where there are none, transposed, with which PyTorch's
products are faster (8 rows of 256 with 8,000 classes: 0.5 ms against 1.0 on one core of a Xeon with AVX-512),
and give a row the same bits from 2 rows on, where those with weights as they lie change between 8 rows and 16
(MKL, AVX-512).
"""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import DecoderBlock, EncoderBlock
from regard.layers.int8 import to_int8
from regard.layers.kernels import attention as plain_attention
from regard.layers.seated_cache import SeatedCache
from regard.models import straight_attention, straight_seated
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import Decoder, Encoder, EncoderDecoder
from regard.models.straight_encoder import Start, starting
from regard.models.straight_linear import (
    AddingMap,
    around,
    entering,
    feed_forward,
    has_kernels,
    linear,
    norm,
)
from regard.native import kernels
from regard.native.linear import PackedLinear

ROWS = 4  # that PyTorch's products, and what else is in a step, make equal to the bit in any multiple


Likeliest = tuple[Float[Tensor, "rows size"], Int64[Tensor, "rows size"], Float[Tensor, " rows"]]


@dataclass(frozen=True)
class Step:
    """From the last ids and a cache of the model, which it goes on, to what is said of the next ids.

    `multiple`: rows in multiples of so many have the same bits in any company. `seats`: whether it wants the
    cache as `seat` makes it. `start`: from sources and their lengths to that, where there is a short way.
    """

    states: Callable[[Int64[Tensor, " rows"], Any], Float[Tensor, "rows d_model"]]
    output: AddingMap
    multiple: int
    seats: bool
    start: Start | None

    def seat(self, cache: Any) -> Any:
        """The cache to step with in the place of this one, which must not be used any more."""
        return SeatedCache.of(cache) if self.seats and not isinstance(cache, SeatedCache) else cache

    def __call__(self, ids: Int64[Tensor, " rows"], cache: Any) -> Float[Tensor, "rows vocab"]:
        """The logits."""
        return self.output(self.states(ids, cache))

    @property
    def ranks(self) -> bool:
        """Whether it can tell the likeliest ids without all others."""
        return isinstance(self.output, PackedLinear)

    def likeliest(
        self, ids: Int64[Tensor, " rows"], cache: Any, size: int, asked: Int64[Tensor, " rows"]
    ) -> Likeliest:
        """The `size` likeliest ids (log-probabilities and ids, the likeliest first), and that of `asked`."""
        assert isinstance(self.output, PackedLinear)
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
    """Put int8 into all maps, if there are kernels that multiply it; how many there are."""
    if (
        not kernels.has_int8()
        or not isinstance(model, EncoderDecoder | DecoderOnly)
        or straight(model) is None
    ):
        return 0
    return to_int8(model, least=0)


def _state(model: nn.Module) -> list[int]:
    """Changes when weights do, when a part is put in the place of another, and when somebody listens.

    It is asked before each batch, so it goes through the tables of modules itself: `modules()` and
    `parameters()` took a twentieth of the time of a sentence alone.
    """
    state: list[int] = []
    waiting = [model]
    while waiting:
        module = waiting.pop()
        state += id(module), len(module._forward_hooks), len(module._forward_pre_hooks)
        for weight in module._parameters.values():
            if weight is not None:
                state += weight.data_ptr(), weight._version
        if isinstance(module, MultiHeadAttention):
            state.append(id(module.attend))
        waiting.extend(part for part in module._modules.values() if part is not None)
    return state


def _is_usual(model: EncoderDecoder | DecoderOnly) -> bool:
    """Whether the decoder is made of parts that are known here, and nobody listens to them."""
    heard = any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    return not heard and _is_known(model.decoder if isinstance(model, EncoderDecoder) else model)


def _is_known(stack: Encoder | Decoder | DecoderOnly) -> bool:
    """Whether this is attention as the paper has it, whatever stands around."""
    return stack.position_bias is None and all(
        type(module) in (MultiHeadAttention, SelfAttention) and module.attend is plain_attention
        for module in stack.modules()
        if isinstance(module, MultiHeadAttention)
    )


def _step(model: EncoderDecoder | DecoderOnly) -> Step:
    windowed = isinstance(model, DecoderOnly) and model.config.window is not None
    seats = has_kernels(model) and not windowed
    output = linear(model.output)
    states = _states(model.decoder if isinstance(model, EncoderDecoder) else model, seats, output)
    start = (
        starting(model) if seats and isinstance(model, EncoderDecoder) and _is_known(model.encoder) else None
    )
    return Step(states, output, 1 if seats else ROWS, seats, start)


def _states(stack: Decoder | DecoderOnly, seats: bool, output: AddingMap) -> Callable[[Tensor, Any], Tensor]:
    """From ids to what goes to the output; what is made of the position is in the cache afterwards."""
    blocks = [_block(block, straight_seated if seats else straight_attention) for block in stack.blocks]
    read = straight_seated.Read(stack, blocks, output) if seats else _read(stack, blocks)
    scale = stack.scale if isinstance(stack, Decoder) else 1
    return read if scale == 1 else lambda ids, cache: read(ids, cache) * scale


def _read(
    stack: Decoder | DecoderOnly, blocks: Sequence[Callable[..., Tensor]]
) -> Callable[[Tensor, Any], Tensor]:
    enter, leave = entering(stack.input), norm(stack.norm)

    def read(ids: Tensor, cache: Any) -> Tensor:
        x = enter(ids, cache.length)
        for number, block in enumerate(blocks):
            x = block(x, cache, number)
        return leave(x)

    return read


def _block(block: nn.Module, attention: Any) -> Callable[[Tensor, Any, int], Tensor]:
    """The sub-layers of a block, one after the other. `attention`: the file that has them."""
    assert isinstance(block, EncoderBlock | DecoderBlock)
    to_itself = around(block.around_self_attention, attention.self_attention(block.self_attention))
    onward = around(block.around_feed_forward, feed_forward(block.feed_forward))
    if isinstance(block, EncoderBlock):
        return lambda x, cache, number: onward(to_itself(x, cache, number))
    to_memory = around(block.around_cross_attention, attention.cross_attention(block.cross_attention))
    return lambda x, cache, number: onward(to_memory(to_itself(x, cache, number), cache, number))
