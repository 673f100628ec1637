"""Convolutions over positions: the conformer's module, and that of an encoder's embeddings."""

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.layers.arguments import refuse_other_sizes


class ConvolutionModule(nn.Module):
    """A gated depthwise convolution: each feature of a position is a weighted sum over its neighbours.

    Gulati et al. 2020, section 2.2, figure 2: pointwise convolution to twice the width, gated linear unit,
    depthwise convolution of `kernel_size` positions, norm, Swish, pointwise convolution. The norm is over
    the features of a position. The paper has batch normalisation, with which outputs would depend on the
    rest of the batch and on padding. The block adds the paper's norm before the module, its dropout and
    residual.
    """

    def __init__(self, d_model: int, kernel_size: int, bias: bool = True) -> None:
        super().__init__()
        refuse_other_sizes(d_model=d_model, kernel_size=kernel_size)
        _require_middle(kernel_size)
        self.inner = nn.Linear(d_model, 2 * d_model, bias)
        self.depthwise = nn.Conv1d(d_model, d_model, kernel_size, padding="same", groups=d_model, bias=bias)
        self.norm = nn.LayerNorm(d_model, eps=1e-5, bias=bias)
        self.outer = nn.Linear(d_model, d_model, bias)

    def forward(
        self, x: Float[Tensor, "batch len d_model"], real: Bool[Tensor, "batch len"] | None = None
    ) -> Float[Tensor, "batch len d_model"]:
        """`real` is False at padding, which counts as zeros, like the positions beyond both ends."""
        x = F.glu(self.inner(x), dim=-1)
        if real is not None:
            x = x.where(real[:, :, None], 0.0)
        x = self.depthwise(x.transpose(1, 2)).transpose(1, 2)
        return self.outer(F.silu(self.norm(x)))


class InputConvolution(nn.Module):
    """x + depthwise convolution of x, so that attention begins with states that know their neighbours.

    Each feature of a position gets a weighted sum of that feature at the `kernel_size` positions around it:
    the horizontal residual connection of Allen-Zhu 2025 ("Canon layers"), here in both directions and once,
    before the first block.
    """

    def __init__(self, d_model: int, kernel_size: int) -> None:
        super().__init__()
        refuse_other_sizes(d_model=d_model, kernel_size=kernel_size)
        _require_middle(kernel_size)
        self.depthwise = nn.Conv1d(d_model, d_model, kernel_size, padding="same", groups=d_model)

    def forward(
        self, x: Float[Tensor, "batch len d_model"], real: Bool[Tensor, "batch len"]
    ) -> Float[Tensor, "batch len d_model"]:
        """`real` is False at padding, which counts as zeros, like the positions beyond both ends."""
        known = x.where(real[:, :, None], 0.0)
        return x + self.depthwise(known.transpose(1, 2)).transpose(1, 2)


def _require_middle(kernel_size: int) -> None:
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise ValueError(f"a kernel with a middle is odd, but kernel_size is {kernel_size}")
