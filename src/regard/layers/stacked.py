"""Several linear layers of one input as one product: one large product is faster than many small."""

from collections.abc import Sequence

from torch import nn


class StackedLinear(nn.Linear):
    """Linear layers of `widths` output features, with their matrices stacked in one weight.

    [..., in_features] -> [..., sum(widths)]: the outputs are concatenated. `weight.split(widths)` gives the
    matrices.
    """

    def __init__(self, in_features: int, widths: Sequence[int], bias: bool = True) -> None:
        super().__init__(in_features, sum(widths), bias)
        self.widths = tuple(widths)
