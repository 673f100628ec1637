"""The numbers of an update, as they are read from the device: a number that is not finite is seen."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.data import TensorExamples
from regard.distributed.replicated import ReplicatedModel
from regard.training.gradients import Gradients
from regard.training.launch import LaunchedUpdate, UpdateNumbers, launch, may_be_read_later
from regard.training.numbers import Numbers
from regard.training.objective import Loss
from regard.training.optimizer import OptimizerSettings, build_optimizer
from regard.training.prefetch import UpdateBatches
from regard.weights.average import MovingAverage


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


def train(monkeypatch, losses, *, queued, dtype=torch.float32):
    """Weights and their average after each update; `losses`: factors of the loss and of what is reported."""
    monkeypatch.setattr("regard.training.launch.may_be_read_later", lambda *_: queued)
    monkeypatch.setattr("regard.training.gradients.is_asynchronous", lambda _: queued)
    torch.manual_seed(1)
    model, factors = nn.Linear(2, 3, dtype=dtype), iter(losses)

    def objective(model, batch):
        nll = F.cross_entropy(model(*batch.inputs), batch.labels, reduction="sum")
        of_total, of_nll = next(factors)
        return Loss(total=of_total * nll, nll=of_nll * nll, num_targets=len(batch.labels))

    examples = TensorExamples(torch.randn(5, 2).to(dtype), torch.tensor([0, 1, 2, 0, 1]))
    group = UpdateBatches(batches=[examples.batch(torch.arange(5).numpy(), 0)], cursor={"epoch": 4})
    gradients = Gradients(ReplicatedModel(model), objective, torch.device("cpu"), "auto")
    optimizer, average, found = build_optimizer(model, OptimizerSettings()), MovingAverage(model, 0.5), []
    for step in range(1, len(losses) + 1):
        launched = launch(
            group,
            step=step,
            rate=0.1,
            clip_norm=1.0,
            gradients=gradients,
            optimizer=optimizer,
            average=average,
        )
        assert (launched.step, launched.epoch, launched.rate) == (step, 4, 0.1)
        found.append([each.detach().clone() for each in (*model.parameters(), *average.tensors().values())])
    return found


@pytest.mark.parametrize(
    ("queued", "dtype"), [(False, torch.float32), (True, torch.float32), (False, torch.bfloat16)]
)
@pytest.mark.parametrize("bad", [(1.0, math.nan), (1.0, math.inf), (math.nan, 1.0), (math.inf, 1.0)])
def test_an_update_that_is_not_finite_changes_neither_weights_nor_average(monkeypatch, queued, dtype, bad):
    """Weights in bfloat16 have no fused update, which could leave itself out."""
    first, skipped, last = train(monkeypatch, [(1.0, 1.0), bad, (1.0, 1.0)], queued=queued, dtype=dtype)
    for before, now, after in zip(first, skipped, last, strict=True):
        torch.testing.assert_close(now, before, rtol=0, atol=0)
        assert not torch.equal(after, now)


def test_an_update_of_a_queue_is_the_same(monkeypatch):
    losses = [(1.0, 1.0), (2.0, 1.0), (1.0, math.nan), (0.5, 1.0)]
    here, later = (train(monkeypatch, losses, queued=queued) for queued in (False, True))
    for each, other in zip(here, later, strict=True):
        for one, two in zip(each, other, strict=True):
            torch.testing.assert_close(one, two)
