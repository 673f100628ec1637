"""The sums of an update are exact, whatever the type of a loss."""

import pytest
import torch
from torch import nn

from regard.data import TensorExamples
from regard.distributed.replicated import ReplicatedModel
from regard.training.gradients import Gradients
from regard.training.objective import Loss

BATCH = TensorExamples(torch.ones(2, 1), torch.zeros(2, dtype=torch.int64)).batch(torch.arange(2).numpy(), 0)


def sums(nll, num_targets):
    """Nats, targets and batches of an update of two batches, each with this loss."""

    def objective(model, batch):
        return Loss(total=model(*batch.inputs).sum(), nll=nll, num_targets=num_targets)

    model = nn.Linear(1, 1)
    return Gradients(ReplicatedModel(model), objective, torch.device("cpu"), "auto")(
        [BATCH] * 2, lambda: None
    )


def test_a_loss_in_float64_keeps_its_digits():
    assert sums(torch.tensor(1 / 3, dtype=torch.float64), 5) == (2 / 3, 10, 2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_targets_are_counted_exactly_though_the_loss_has_few_digits(dtype):
    """bfloat16 has no 257, float16 no 4,097."""
    assert sums(torch.tensor(0.5, dtype=dtype), 257) == (1.0, 514, 2)
    assert sums(torch.tensor(0.5, dtype=dtype), 4097) == (1.0, 8194, 2)


def test_a_batch_may_have_no_targets():
    assert sums(torch.tensor(0.5), 0) == (1.0, 0, 2)


class Short:
    """An objective whose memory is short for more than one example."""

    def __call__(self, model, batch):
        if len(batch) > 1:
            raise torch.OutOfMemoryError("out of memory")
        return Loss(total=model(*batch.inputs).sum(), nll=torch.tensor(0.5), num_targets=1)


def test_where_memory_is_short_batches_are_halved_but_not_those_of_a_sharded_model():
    """All its processes would have to halve theirs."""
    distributed = ReplicatedModel(nn.Linear(1, 1))
    gradients = Gradients(distributed, Short(), torch.device("cpu"), "auto")
    assert gradients([BATCH], lambda: None) == (1.0, 2, 2)
    distributed.is_sharded = True
    with pytest.raises(torch.OutOfMemoryError):
        gradients([BATCH], lambda: None)
