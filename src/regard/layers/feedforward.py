"""Position-wise feed-forward networks (Vaswani et al. 2017, section 3.3), plain and gated."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.arguments import refuse_no_function, refuse_other_shares, refuse_other_sizes
from regard.layers.stacked import StackedLinear

Activation = Literal["relu", "gelu", "gelu_tanh", "quick_gelu", "silu", "swiglu", "geglu", "geglu_tanh"]
Elementwise = Callable[[Tensor], Tensor]


def quick_gelu(x: Tensor) -> Tensor:
    """x * sigmoid(1.702 x), an approximation of gelu (Hendrycks and Gimpel 2016, section 2)."""
    return x * torch.sigmoid(1.702 * x)


# "gelu" is x * Phi(x), "gelu_tanh" the approximation of Phi that GPT-2 was trained with, "quick_gelu" that of
# CLIP; swish is "silu"
GELU_TANH = partial(F.gelu, approximate="tanh")
ACTIVATIONS: Mapping[str, Elementwise] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": GELU_TANH,
    "quick_gelu": quick_gelu,
    "silu": F.silu,
}
GATES: Mapping[str, Elementwise] = {"swiglu": F.silu, "geglu": F.gelu, "geglu_tanh": GELU_TANH}


class FeedForward(nn.Module):
    """Two linear layers with an activation between them: max(0, x W1 + b1) W2 + b2, if it is ReLU.

    Vaswani et al. 2017, equation 2. `dropout` is applied after the activation.
    """

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
        refuse_other_sizes(d_model=d_model, d_ff=d_ff)
        refuse_other_shares(dropout=dropout)
        refuse_no_function(activation=activation)
        self.activation = activation
        self.inner = nn.Linear(d_model, d_ff, bias)
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(d_ff, d_model, bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.outer(self.dropout(self.activation(self.inner(x))))


class GatedFeedForward(nn.Module):
    """A gated network: (activation(x W) * x V) W2. SwiGLU has the activation `F.silu`, GEGLU `F.gelu`.

    Shazeer 2020, equation 6. `dropout` is applied before W2.
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
        refuse_other_sizes(d_model=d_model, d_ff=d_ff)
        refuse_other_shares(dropout=dropout)
        refuse_no_function(activation=activation)
        self.activation = activation
        self.gate_inner = StackedLinear(d_model, (d_ff, d_ff), bias)
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(d_ff, d_model, bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        gate, inner = self.gate_inner(x).chunk(2, dim=-1)
        return self.outer(self.dropout(self.activation(gate) * inner))


def feed_forward(
    kind: Activation,
    d_model: int,
    d_ff: int,
    *,
    dropout: float = 0.0,
    bias: bool = True,
    gated_bias: bool = False,
) -> FeedForward | GatedFeedForward:
    """A feed-forward network of this `kind`: the name of an activation, or of a gated network.

    It has biases if `bias`; a gated one if `gated_bias`.

    Raises:
        ValueError: the activation is unknown.
    """
    if kind not in GATES and kind not in ACTIVATIONS:
        raise ValueError(f"no activation {kind!r}; known: {', '.join([*ACTIVATIONS, *GATES])}")
    if kind in GATES:
        return GatedFeedForward(d_model, d_ff, GATES[kind], dropout=dropout, bias=gated_bias)
    return FeedForward(d_model, d_ff, ACTIVATIONS[kind], dropout=dropout, bias=bias)
