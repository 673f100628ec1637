"""A registered optimiser trains as its groups say and resumes to the same bits; others are refused."""

import jaxtyping
import pytest
import torch
from torch import nn

from regard.data import TensorExamples
from regard.errors import FolderError, RecipeError, RunError, UserError
from regard.training import (
    LabelCrossEntropy,
    OptimizerSettings,
    ScheduleSettings,
    TrainingSettings,
    build_optimizer,
    fit,
    register_optimizer,
)
from regard.training.optimizer import is_fused, set_learning_rate
from regard.training.optimizer_state import optimizer_tensors, restore_optimizer
from regard.training.registered_optimizers import OPTIMIZERS
from regard.weights import RunFolder


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(OPTIMIZERS, "added", {})


class Counting(torch.optim.Optimizer):
    """The size of its steps depends on Python numbers, of weights and of groups."""

    def __init__(self, groups):
        super().__init__(groups, {"lr": 1.0, "weight_decay": 0.0, "updates": 0, "mean": 0.0, "begun": False})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["updates"] += 1
            group["begun"] = True
            for weight in group["params"]:
                state = self.state[weight]
                state["count"] = state.get("count", 0) + 1
                state["share"] = state.get("share", 1.0) / 3
                state["last"] = None
                group["mean"] = 0.5 * group["mean"] + weight.grad.abs().mean().item()
                size = group["lr"] * (state["share"] + 1 / state["count"] + group["mean"] + group["updates"])
                weight.sub_(0.01 * size * weight.grad.sign())


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))


class Layered(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.head = nn.Linear(4, 2)


MAKERS = {
    "counts": Counting,
    "sgd": lambda groups: torch.optim.SGD(groups, momentum=0.9),
    "adagrad": torch.optim.Adagrad,  # has its state from the start
    "adafactor": torch.optim.Adafactor,  # a row and a column for each matrix
    "nadam": torch.optim.NAdam,  # numbers for each weight
    "two": lambda groups: [
        torch.optim.SGD([groups[0]], momentum=0.9),
        torch.optim.NAdam([groups[1]], weight_decay=0.0),
    ],
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_run_that_was_stopped_ends_in_the_bits_of_one_that_was_not(name, tmp_path):
    register_optimizer("mine")(MAKERS[name])
    inputs = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
    rows = TensorExamples(inputs, (inputs[:, 0] > 0).long())
    final = []
    for pieces in ([8], [3, 8]):
        run, model = tmp_path / str(len(pieces)), network()
        for number, steps in enumerate(pieces):
            model = model if number == 0 else network()
            settings = TrainingSettings(
                max_steps=steps,
                validate_every=4,
                save_every=3,
                schedule=ScheduleSettings(kind="constant", learning_rate=0.05, warmup_steps=2),
                optimizer=OptimizerSettings(kind="mine"),
            )
            fit(model, rows, run, objective=LabelCrossEntropy(), settings=settings)
        final.append(RunFolder(run).latest().read_tensors("model.safetensors"))
    assert final[0].keys() == final[1].keys()
    assert all(torch.equal(final[0][key], final[1][key]) for key in final[0])
    assert any(not torch.equal(weight, final[0][key]) for key, weight in network().state_dict().items())


def test_it_gets_the_groups_of_adamw_and_the_options_of_the_recipe():
    found = {}

    @register_optimizer("mine")
    def mine(groups, *, momentum, size=1):
        found.update(groups=groups, momentum=momentum, size=size)
        return torch.optim.SGD(groups, momentum=momentum)

    net = Layered()
    settings = {"weight_decay": 0.1, "layer_decay": 0.5}
    optimizer = build_optimizer(net, OptimizerSettings(kind="mine", options={"momentum": 0.3}, **settings))
    expected = build_optimizer(net, OptimizerSettings(kind="adamw", **settings)).param_groups
    for key in ("names", "params", "weight_decay", "scale"):
        assert [group[key] for group in optimizer.param_groups] == [group[key] for group in expected]
    assert (found["momentum"], found["size"]) == (0.3, 1)
    set_learning_rate(optimizer, 0.8)
    assert [group["lr"] for group in optimizer.param_groups] == [
        0.8 * group["scale"] for group in optimizer.param_groups
    ]
    assert found["groups"][0]["names"] == ["head.weight"]


def test_groups_of_its_own_may_have_rates_of_their_own():
    @register_optimizer("mine")
    def mine(groups):
        return torch.optim.SGD([{**groups[0], "scale": 10.0}, {"params": groups[1]["params"]}])

    optimizer = build_optimizer(network(), OptimizerSettings(kind="mine"))
    set_learning_rate(optimizer, 0.1)
    assert [group["lr"] for group in optimizer.param_groups] == [1.0, 0.1]


def test_only_the_updates_of_regards_own_are_left_to_a_gpu():
    """Whether another fused update heeds what the GPU decides is not known."""
    register_optimizer("mine")(lambda groups: torch.optim.SGD(groups, fused=True))
    assert not is_fused(build_optimizer(network(), OptimizerSettings(kind="mine")))
    assert is_fused(build_optimizer(network(), OptimizerSettings()))


@pytest.mark.parametrize(
    ("make", "options", "message", "hint"),
    [
        (lambda groups, momentum=0.9: None, {"momentun": 0.9}, "momentun", "momentum"),
        (lambda groups: None, {"momentum": 0.9}, "momentum", "it has no options"),
        (lambda groups, momentum: None, {}, "missing a required argument: 'momentum'", "options"),
        (lambda groups: None, {}, "'mine' is NoneType", "return an optimiser"),
        (lambda groups: [torch.optim.SGD(groups), 3], {}, "'mine' is int", "return an optimiser"),
        (lambda groups: torch.optim.SGD(groups[:1]), {}, "does not have the weight 0.bias", "freeze"),
        (lambda groups: [torch.optim.SGD(groups)] * 2, {}, "12 weights, and 6 are trained", "to one"),
        (lambda groups: torch.optim.LBFGS(groups[0]["params"]), {}, "again in an update", "closure"),
    ],
)  # fmt: skip
def test_one_that_cannot_train_is_refused_with_the_reason(make, options, message, hint):
    register_optimizer("mine")(make)
    with pytest.raises(RecipeError, match=message) as refused:
        build_optimizer(network(), OptimizerSettings(kind="mine", options=options))
    assert hint in refused.value.hint


def test_one_with_other_weights_for_validation_is_refused():
    class Averaging(torch.optim.SGD):
        def train(self): ...

        def eval(self): ...

    register_optimizer("mine")(Averaging)
    with pytest.raises(RecipeError, match=r"train\(\) and eval\(\)"):
        build_optimizer(network(), OptimizerSettings(kind="mine"))


class WithoutDecay(torch.optim.Optimizer):
    def __init__(self, groups):
        super().__init__(groups, {"lr": 1.0})

    def step(self, closure=None): ...


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (WithoutDecay, {"weight_decay": 0.1}, r"weight_decay has no effect on blocks\.0\.weight"),
        (
            lambda groups: torch.optim.SGD([weight for each in groups for weight in each["params"]]),
            {"weight_decay": 0.1},
            r"weight_decay has no effect on blocks\.0\.weight",
        ),
        (
            lambda groups: torch.optim.SGD([{"params": each["params"]} for each in groups]),
            {"layer_decay": 0.5},
            r"layer_decay has no effect on blocks\.1\.weight",
        ),
    ],
)
def test_a_setting_that_it_does_not_take_over_is_refused(make, settings, message):
    register_optimizer("mine")(make)
    build_optimizer(Layered(), OptimizerSettings(kind="mine"))
    with pytest.raises(RecipeError, match=message):
        build_optimizer(Layered(), OptimizerSettings(kind="mine", **settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "mine", "beta1": 0.8}, "beta1 = 0.8 has no effect with kind = 'mine'"),
        ({"kind": "mine", "beta2": 0.9}, "beta2 = 0.9 has no effect"),
        ({"kind": "mine", "epsilon": 1e-8}, "epsilon = 1e-08 has no effect"),
        ({"kind": "mine", "l2": 0.1}, "l2 needs kind = 'adam'"),
        ({"kind": "adam", "options": {"momentum": 0.9}}, "options have no effect with kind = 'adam'"),
    ],
)
def test_what_only_the_others_have_is_refused(settings, message):
    with pytest.raises(RecipeError, match=message):
        OptimizerSettings(**settings)


def test_an_unknown_one_is_refused_with_the_nearest():
    with pytest.raises(RecipeError, match="no optimiser is registered as 'adamm'") as refused:
        build_optimizer(network(), OptimizerSettings(kind="adamm"))
    assert "'adam'" in refused.value.hint


def test_regards_own_names_and_what_cannot_be_called_are_refused(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which would refuse it first
    with pytest.raises(UserError, match="optimiser 'adam' is one of regard's own"):
        register_optimizer("adam")
    with pytest.raises(UserError, match="cannot be called"):
        register_optimizer("mine")(3)


def steps(net, optimizer):
    net(torch.ones(1, 4)).sum().backward()
    set_learning_rate(optimizer, 0.01)
    optimizer.step()


def test_state_that_a_checkpoint_cannot_have_is_refused_by_name():
    class Listing(WithoutDecay):
        def step(self, closure=None):
            self.state[self.param_groups[0]["params"][0]]["past"] = [1, 2]

    register_optimizer("mine")(Listing)
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings(kind="mine"))
    steps(net, optimizer)
    with pytest.raises(RunError, match="'past', list, which cannot be saved"):
        optimizer_tensors(net, optimizer)


def test_the_state_of_another_version_of_it_is_refused():
    register_optimizer("mine")(Counting)
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings(kind="mine"))
    steps(net, optimizer)
    saved = optimizer_tensors(net, optimizer)
    register_optimizer("mine")(WithoutDecay)
    with pytest.raises(FolderError, match=r"group 0: 'updates', which the optimiser lacks"):
        restore_optimizer(net, build_optimizer(net, OptimizerSettings(kind="mine")), saved)


def test_numbers_are_restored_as_the_types_that_they_were():
    register_optimizer("mine")(Counting)
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings(kind="mine"))
    steps(net, optimizer)
    other = build_optimizer(net, OptimizerSettings(kind="mine"))
    restore_optimizer(net, other, optimizer_tensors(net, optimizer))
    for mine, restored in zip(optimizer.param_groups, other.param_groups, strict=True):
        for key in ("updates", "mean", "begun", "weight_decay"):
            assert (type(mine[key]), mine[key]) == (type(restored[key]), restored[key])
    weight = net[0].weight
    assert other.state[weight] == {k: v for k, v in optimizer.state[weight].items() if v is not None}
    assert type(other.state[weight]["count"]) is int
