"""The vector of a position is the same to the bit whatever other positions are asked for."""

import pytest
import torch

from regard.fast import position_vectors
from regard.fast.position_vectors import PositionVectors
from regard.layers.positions import LearnedPositions, SinusoidalPositions


@pytest.mark.parametrize("most", [8192, 20])
def test_they_are_those_of_the_layer_one_by_one(monkeypatch, most):
    monkeypatch.setattr(position_vectors, "MOST", most)
    layer = SinusoidalPositions(6, table_len=40)
    vectors = PositionVectors(layer)
    for positions in ([3], [0, 50, 3], [7, 7], [120]):
        found = vectors(torch.tensor(positions))
        assert torch.equal(found, torch.cat([layer(position, 1) for position in positions]))


def test_positions_that_were_not_learned_are_refused():
    vectors = PositionVectors(LearnedPositions(4, 10))
    assert vectors(torch.tensor([9, 0])).shape == (2, 4)
    with pytest.raises(ValueError, match="only max_positions"):
        vectors(torch.tensor([3, 10]))
