"""A stacked linear layer equals the layers that it stacks."""

import torch
import torch.nn.functional as F

from regard.layers.stacked import StackedLinear


def test_a_stack_gives_what_its_maps_give_side_by_side():
    stacked = StackedLinear(4, (3, 1, 2))
    x = torch.randn(5, 4)
    maps = zip(stacked.weight.split(stacked.widths), stacked.bias.split(stacked.widths), strict=True)
    torch.testing.assert_close(stacked(x), torch.cat([F.linear(x, *each) for each in maps], dim=-1))
