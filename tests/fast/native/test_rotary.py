"""Heads are turned as the layer rotary them."""

import pytest
import torch

from regard.fast.native import kernels
from regard.fast.native.rotary import rotate
from regard.layers.positions import RotaryPositions

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no C compiler")


@pytest.mark.parametrize("d_head", [2, 6, 16, 40])
@pytest.mark.parametrize("position", [0, 7, 3000])
def test_they_are_those_of_the_layer(d_head, position):
    positions, heads = RotaryPositions(d_head), 3
    wide = torch.randn(5, heads * d_head + 2, generator=torch.Generator().manual_seed(d_head))
    x = wide[:, 1:-1]
    rotary = torch.cat(positions.sines_and_cosines(position, 1), dim=1)
    found = rotate(x, rotary.expand(5, -1), d_head)
    expected = positions(x.unflatten(1, (heads, 1, d_head)), position).flatten(1)
    torch.testing.assert_close(found, expected)


def test_each_row_is_turned_by_its_own_angles():
    x, rotary = (torch.randn(4, 12, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    alone = [rotate(x[[row]], rotary[[row]], 6) for row in range(4)]
    assert torch.equal(rotate(x, rotary, 6), torch.cat(alone))
