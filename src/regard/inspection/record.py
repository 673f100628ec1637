"""Listens to every attention of a model while it works, and changes nothing of what it does."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.attention import MultiHeadAttention
from regard.layers.kernels import attention_weights, masked_softmax
from regard.layers.recurrent import SourceAttention

Attend = Callable[..., Tensor]  # with the signature that the attention's own has
Weights = Float[Tensor, "batch heads tgt_len src_len"]


@dataclass(frozen=True)
class Recording:
    """The weights of each attention by the name of its module, one tensor for each time it was called."""

    calls: dict[str, list[Tensor]] = field(default_factory=dict)

    def last(self, name: str) -> Weights:
        """What the attention called `name` gave when it was last called."""
        return self.calls[name][-1]

    def whole(self, name: str) -> Weights:
        """What it gave in all its calls, one after the other: a decoder may go position by position."""
        return torch.cat(self.calls[name], dim=2)


@contextmanager
def record_attention(model: nn.Module, names: Sequence[str] | None = None) -> Iterator[Recording]:
    """Records inside the `with`: all attentions of `model`, or those of these `names`.

    Weights are those before dropout. What the model computes stays the same to the bit: each attention
    goes on with the kernel that it has, beside which its weights are computed once more.
    """
    attentions = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention | SourceAttention) and (names is None or name in names)
    }
    recording = Recording({name: [] for name in attentions})
    usual: dict[str, Attend] = {name: module.attend for name, module in attentions.items()}
    for name, module in attentions.items():
        weights = _of_states if isinstance(module, SourceAttention) else _of_heads
        module.attend = _telling(usual[name], weights, recording.calls[name])
    try:
        yield recording
    finally:
        for name, module in attentions.items():
            module.attend = usual[name]


def _telling(attend: Attend, weights: Callable[..., Weights], told: list[Tensor]) -> Attend:
    """`attend`, which also tells how much each position looks at each."""

    def telling(*given: Any) -> Tensor:
        with torch.no_grad():
            told.append(weights(*given))
        return attend(*given)

    return telling


def _of_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    position_bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Weights:
    """The weights with which a kernel mixes the values."""
    return attention_weights(query, key, mask, position_bias)


def _of_states(scores: Tensor, values: Tensor, mask: Tensor | None = None) -> Weights:
    """The weights with which the attention of a recurrent decoder does: it has one head."""
    return masked_softmax(scores, mask)[:, None]
