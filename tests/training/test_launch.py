"""The numbers of an update, as they are read from the device: a number that is not finite is seen."""

import math

import pytest
import torch

from regard.data import TensorExamples
from regard.training.launch import LaunchedUpdate, UpdateNumbers, may_be_read_later
from regard.training.numbers import Numbers


def launched(nll=2.5, targets=7.0, parts=2.0, norm=1.5, batches=()):
    numbers = Numbers(torch.tensor([nll, targets, parts]), torch.tensor(norm))
    return LaunchedUpdate(step=1, epoch=0, rate=0.1, batches=[*batches], numbers=numbers)


def test_numbers_are_read_as_they_were_computed():
    found = launched().read()
    assert found == UpdateNumbers(nll=2.5, num_targets=7, parts=2, norm=1.5)
    assert found.is_finite


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_update_counts_only_with_a_finite_loss_and_a_finite_gradient(value):
    assert not launched(nll=value).read().is_finite
    assert not launched(norm=value).read().is_finite
    assert not launched(nll=value, norm=abs(value)).read().is_finite


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_targets_whose_number_was_lost_are_none(value):
    assert launched(targets=value).read().num_targets == 0


def test_the_lines_of_an_update_are_those_of_all_of_its_batches():
    examples = TensorExamples(torch.zeros(6, 2), torch.zeros(6, dtype=torch.int64))
    batches = [examples.batch(torch.tensor(lines).numpy(), 0) for lines in ([3, 1], [5])]
    assert launched(batches=batches).lines() == [*batches[0].lines.tolist(), *batches[1].lines.tolist()]


@pytest.mark.parametrize(
    ("device", "fused", "later"),
    [("cpu", True, False), ("cpu", None, False), ("cuda", None, False), ("cuda", True, True)],
)
def test_the_next_update_begins_before_the_last_is_read_only_where_a_gpu_decides_alone(device, fused, later):
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(2))], fused=fused)
    assert may_be_read_later(torch.device(device), optimizer) is later
