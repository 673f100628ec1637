"""An optimiser must change a weight in one of its first updates; what it does later is not watched."""

import pytest
import torch
from torch import nn

from regard.errors import RecipeError
from regard.training.first_steps import TRIED, FirstSteps


def updates(changes, *, gradients=None, divided=False):
    """Updates that change a weight or not, each with a gradient by default."""
    weights = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))]
    if divided:
        weights[0].placements = ()
    first = FirstSteps("mine", weights)
    for number, change in enumerate(changes):
        weights[0].grad = torch.ones(2) if gradients is None or gradients[number] else torch.zeros(2)
        first.before()
        if change:
            weights[0].data[0] -= 0.5
        first.after()
    return first


def test_an_update_among_the_first_that_changes_a_weight_is_enough():
    for number in (0, 1, TRIED - 1):
        updates([number == each for each in range(3 * TRIED)])


def test_without_one_it_is_refused_at_the_last_that_counts():
    updates([False] * (TRIED - 1))
    with pytest.raises(RecipeError, match="'mine' has changed no weight"):
        updates([False] * TRIED)
    with pytest.raises(RecipeError, match="'mine' has changed no weight"):
        updates([each == TRIED for each in range(TRIED + 1)])


def test_an_update_without_a_gradient_says_nothing():
    updates([False] * 2 * TRIED, gradients=[number % 3 == 0 for number in range(2 * TRIED)])
    updates([False] * 2 * TRIED, gradients=[False] * 2 * TRIED)


def test_a_change_that_keeps_the_sum_is_one():
    weight = nn.Parameter(torch.tensor([1.0, -1.0]))
    first = FirstSteps("mine", [weight])
    for _ in range(2 * TRIED):
        weight.grad = torch.ones(2)
        first.before()
        weight.data += torch.tensor([0.5, -0.5])
        first.after()


def test_divided_weights_are_not_read():
    """A process may have no row of them."""
    assert updates([False] * 2 * TRIED, divided=True)._before == []
