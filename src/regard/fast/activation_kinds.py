"""The kernels for the activations of feed-forward networks."""

from collections.abc import Callable

from torch import Tensor

from regard.fast.native.activation import QUICK_GELU, kind_of
from regard.layers.feedforward import quick_gelu


def kernel_kind(activation: Callable[[Tensor], Tensor]) -> int | None:
    """The number of the kernel for this activation; None if there is none."""
    return QUICK_GELU if activation is quick_gelu else kind_of(activation)
