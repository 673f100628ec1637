"""The optimiser's state goes to disk and back; decay leaves biases and norms alone."""

import pytest
import torch
from torch import nn

from regard.errors import FolderError, RecipeError
from regard.training.optimizer import (
    OptimizerSettings,
    build_optimizer,
    optimizer_tensors,
    restore_optimizer,
    set_learning_rate,
)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))


def steps(net, optimizer, count):
    for i in range(count):
        optimizer.zero_grad()
        generator = torch.Generator().manual_seed(i)
        net(torch.randn(5, 4, generator=generator)).square().sum().backward()
        set_learning_rate(optimizer, 0.01)
        optimizer.step()


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_a_restored_optimiser_goes_on_to_the_same_bits(kind):
    settings = OptimizerSettings(kind=kind, weight_decay=0.1 if kind == "adamw" else 0.0)
    whole = network()
    optimizer = build_optimizer(whole, settings)
    steps(whole, optimizer, 3)
    saved = {name: tensor.clone() for name, tensor in optimizer_tensors(whole, optimizer).items()}
    resumed = network()
    resumed.load_state_dict(whole.state_dict())
    other = build_optimizer(resumed, settings)
    restore_optimizer(resumed, other, saved)
    steps(whole, optimizer, 2)
    steps(resumed, other, 2)
    for expected, found in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(expected, found)


def test_a_tied_parameter_has_one_state():
    net = nn.ModuleList([nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)])
    net[1].weight = net[0].weight
    optimizer = build_optimizer(net, OptimizerSettings())
    net[1](net[0](torch.ones(1, 4))).sum().backward()
    optimizer.step()
    assert sorted(optimizer_tensors(net, optimizer)) == [
        "0.weight/exp_avg",
        "0.weight/exp_avg_sq",
        "0.weight/step",
    ]


def test_decay_shrinks_matrices_and_nothing_else():
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings(kind="adamw", weight_decay=0.5))
    before = [parameter.clone() for parameter in net.parameters()]
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)
    set_learning_rate(optimizer, 0.1)
    optimizer.step()
    for old, new in zip(before, net.parameters(), strict=True):
        torch.testing.assert_close(new, old * 0.95 if old.ndim > 1 else old)


def test_state_of_another_model_is_refused_by_name():
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings())
    with pytest.raises(FolderError, match=r"9\.weight"):
        restore_optimizer(net, optimizer, {"9.weight/exp_avg": torch.zeros(1)})
    with pytest.raises(FolderError, match=r"0\.weight is \(3, 3\)"):
        restore_optimizer(net, optimizer, {"0.weight/exp_avg": torch.zeros(3, 3)})


@pytest.mark.parametrize(
    "wrong", [{"beta1": 1.0}, {"epsilon": 0.0}, {"weight_decay": -1.0}, {"weight_decay": 0.1}]
)
def test_a_value_that_cannot_work_is_refused_by_name(wrong):
    with pytest.raises(RecipeError, match=next(iter(wrong))):
        OptimizerSettings(**wrong)
