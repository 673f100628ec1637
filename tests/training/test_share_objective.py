"""A process without an example of a batch adds nothing to the gradient, and takes part in computing it."""

import torch
from torch import nn

from regard.data.memory_examples import TensorBatch, TensorExamples
from regard.data.process_share import EmptyShare
from regard.training.objective import LabelCrossEntropy, Loss
from regard.training.share_objective import ShareObjective


def test_an_empty_share_has_no_loss_no_targets_and_gradients_of_zero():
    torch.manual_seed(1)
    model, inputs = nn.Linear(4, 3), torch.randn(5, 4)
    examples = TensorExamples(inputs, torch.tensor([0, 1, 2, 0, 1]))
    batch = examples.batch(torch.arange(5).numpy(), 0)
    assert isinstance(batch, TensorBatch)
    objective = ShareObjective(LabelCrossEntropy())
    whole, empty = objective(model, batch), objective(model, EmptyShare(batch))
    torch.testing.assert_close(whole.total, LabelCrossEntropy()(model, batch).total)
    assert (empty.total.item(), empty.nll.item(), empty.num_targets) == (0.0, 0.0, 0)
    empty.total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert not parameter.grad.any(), name


def test_an_empty_share_of_a_batch_without_loss_has_none():
    def nothing(model, batch):
        zero = 0 * model.weight.sum()
        return Loss(total=zero, nll=zero.detach(), num_targets=5)

    model = nn.Linear(4, 3)
    batch = TensorExamples(torch.zeros(2, 4), torch.tensor([0, 1])).batch(torch.arange(2).numpy(), 0)
    empty = ShareObjective(nothing)(model, EmptyShare(batch))
    assert (empty.total.item(), empty.nll.item()) == (0.0, 0.0)
