"""The most probable tokens at each step of a row."""

import numpy as np
import torch

from regard.decoding.alternatives import Alternatives


def test_copies_of_a_row_share_the_steps_before():
    found = Alternatives(2, 2)
    found.rank(torch.tensor([[0.0, -1.0, -2.0], [-2.0, -1.0, 0.0]]))
    found.move(np.array([1, 1, 0]))
    found.append()
    found.rank(torch.tensor([[-1.0, 0.0, -2.0]] * 3))
    second = ((1, 0.0), (0, -1.0))
    assert found.of_row(0, 2) == found.of_row(1, 2) == [((2, 0.0), (1, -1.0)), second]
    assert found.of_row(2, 3) == [(), ((0, 0.0), (1, -1.0)), second]  # after a token that was begun with
    found.append()
    found.join(1)
    assert found.of_row(3, 2) == [(), ()]


def test_there_are_no_more_of_them_than_tokens():
    """A step that ranks more than the vocabulary has gives minus infinity for the rest."""
    found = Alternatives(3, 1)
    found.record(np.array([[0.0, -1.0, -np.inf]]), np.array([[1, 0, 0]]))
    assert found.of_row(0, 1) == [((1, 0.0), (0, -1.0))]
    found.rank(torch.tensor([[0.0, -1.0]]))
    assert found.of_row(0, 1) == [((0, 0.0), (1, -1.0))]
