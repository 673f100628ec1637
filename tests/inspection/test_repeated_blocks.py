"""A block that a model applies several times has a name for each time, and the same weights."""

import torch
from torch import nn

from regard.inspection.repeated_blocks import with_distinct_blocks


class Stack(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def test_repeated_blocks_become_several_with_the_same_weights():
    block, x = nn.Sequential(nn.Linear(3, 3), nn.Tanh()), torch.randn(2, 3)
    model = Stack([block, nn.Tanh(), block])
    found = with_distinct_blocks(model)
    assert [name for name, _ in found.named_modules() if name.endswith(".0")] == [
        "blocks.0", "blocks.0.0", "blocks.2.0",
    ]  # fmt: skip
    assert found.blocks[0][0].weight is found.blocks[2][0].weight is block[0].weight
    assert torch.equal(found(x), model(x))
    assert model.blocks[0] is model.blocks[2]  # the model itself is as it was


def test_a_model_without_repeated_blocks_is_not_copied():
    model = Stack([nn.Linear(3, 3), nn.Linear(3, 3)])
    assert with_distinct_blocks(model) is model
