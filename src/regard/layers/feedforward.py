"""Feed-forward networks: each position thinks for itself (Vaswani et al. 2017, section 3.3)."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.dropout import Dropout, drawn
from regard.layers.fusing import can_be_fused
from regard.layers.stacked import StackedLinear
from regard.native.around import Drawn, FeedForwardReLU

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "geglu_tanh"]
Elementwise = Callable[[Tensor], Tensor]

# "gelu" is x * Phi(x), "gelu_tanh" the approximation of Phi that GPT-2 was trained with; swish is "silu"
GELU_TANH = partial(F.gelu, approximate="tanh")
ACTIVATIONS: Mapping[str, Elementwise] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": GELU_TANH,
    "silu": F.silu,
}
GATES: Mapping[str, Elementwise] = {"swiglu": F.silu, "geglu": F.gelu, "geglu_tanh": GELU_TANH}


class FeedForward(nn.Module):
    """Equation 2: max(0, x W1 + b1) W2 + b2, or another activation; `dropout` acts between the two."""

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: Callable[[Tensor], Tensor] = F.relu,
        *,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.inner = nn.Linear(d_model, d_ff, bias)
        self.dropout = Dropout(dropout)
        self.outer = nn.Linear(d_ff, d_model, bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        if self._can_be_fused(x):
            return self._fused(x)
        return self.outer(self.dropout(self.activation(self.inner(x))))

    def _can_be_fused(self, x: Tensor) -> bool:
        with_bias = self.inner.bias is not None and self.outer.bias is not None
        maps = type(self.inner) is nn.Linear and type(self.outer) is nn.Linear
        relu = self.activation is F.relu
        return relu and with_bias and maps and can_be_fused(x, self.inner, self.dropout, self.outer)

    def _fused(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        rows = x.reshape(-1, x.size(-1))
        dropout = self.dropout.p and drawn((*x.shape[:-1], self.inner.out_features), self.dropout.p)
        out = FeedForwardReLU.apply(
            rows,
            self.inner.weight,
            self.inner.bias,
            self.outer.weight,
            self.outer.bias,
            dropout or Drawn(None),
        )
        return out.view(*x.shape[:-1], -1)


class GatedFeedForward(nn.Module):
    """(activation(x W) * x V) W2, without biases: SwiGLU with `F.silu`, GEGLU with `F.gelu`.

    Shazeer 2020, equation 6.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        activation: Callable[[Tensor], Tensor] = F.silu,
        *,
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.gate_inner = StackedLinear(d_model, (d_ff, d_ff), bias)
        self.dropout = Dropout(dropout)
        self.outer = nn.Linear(d_ff, d_model, bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        gate, inner = self.gate_inner(x).chunk(2, dim=-1)
        return self.outer(self.dropout(self.activation(gate) * inner))


def feed_forward(
    kind: Activation, d_model: int, d_ff: int, *, dropout: float = 0.0, bias: bool = True
) -> FeedForward | GatedFeedForward:
    """The network that `kind` names; a gated one has no biases in any case."""
    if kind in GATES:
        return GatedFeedForward(d_model, d_ff, GATES[kind], dropout=dropout)
    return FeedForward(d_model, d_ff, ACTIVATIONS[kind], dropout=dropout, bias=bias)
