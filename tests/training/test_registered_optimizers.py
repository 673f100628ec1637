"""A registered optimiser trains as its groups say and resumes to the same bits; others are refused."""

import json
import math
import signal
from contextlib import nullcontext
from types import SimpleNamespace

import jaxtyping
import numpy as np
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
from regard.training.optimizer_state import optimizer_files, optimizer_tensors, restore_optimizer
from regard.training.registered_optimizers import OPTIMIZERS, refuse_unknown_optimizer
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


class Rebinds(torch.optim.Optimizer):
    """A step that computes new weights and keeps them in a variable."""

    def __init__(self, groups, every=0):
        super().__init__(groups, {"lr": 1.0, "weight_decay": 0.0, "every": every, "count": 0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["count"] += 1
            for weight in group["params"]:
                new = weight - group["lr"] * weight.grad
                if group["every"] and group["count"] % group["every"] == 0:
                    weight.copy_(new)


def test_an_optimiser_that_changes_no_weight_is_refused_after_some_updates(tmp_path):
    register_optimizer("rebinds")(Rebinds)
    rows = TensorExamples(torch.randn(8, 4), torch.randint(0, 2, (8,)))
    for every in (0, 4):
        schedule = ScheduleSettings(kind="constant", warmup_steps=1)
        optimizer = OptimizerSettings(kind="rebinds", options={"every": every})
        settings = TrainingSettings(max_steps=12, schedule=schedule, optimizer=optimizer)
        expected = nullcontext() if every else pytest.raises(RecipeError, match="'rebinds' has changed no w")
        with expected:
            out = tmp_path / str(every)
            fit(network(), rows, out, objective=LabelCrossEntropy(), settings=settings)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))


class Layered(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.head = nn.Linear(4, 2)


class Keeping(torch.optim.Optimizer):
    """Keeps values of many types that its updates depend on, from the first update on."""

    def __init__(self, groups):
        super().__init__(groups, {"lr": 1.0, "weight_decay": 0.0, "limit": math.inf, "kind": signal.SIGINT})

    @torch.no_grad()
    def step(self, closure=None):
        self.state["all"] = self.state.get("all", 0) + 1
        for group in self.param_groups:
            group["updates"] = group.get("updates", np.int64(0)) + 1
            group["past"] = [*group.get("past", []), float(group["updates"])][-3:]
            group["pair"] = (group["updates"] / 7, None)
            group["name"] = f"update {group['updates']}"
            shared = None
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state.update(last=None, inner={0: torch.zeros(3, dtype=torch.float64), "a/b": 1 + 2j})
                    shared = torch.zeros(()) if shared is None else shared
                    state.update(
                        shared=shared, again=state["inner"][0], itself=weight, narrow=np.float32(0.1)
                    )
                assert state["itself"] is weight
                state["inner"][0] += weight.grad.norm().double() / 3
                state["shared"] += 1
                last, state["last"] = state["last"], torch.tensor([state["again"][0], 2.0]).bfloat16()
                state["inner"]["a/b"] *= 1.1
                size = sum(group["past"]) + state["shared"] + float(state["narrow"]) + len(group["name"])
                size += abs(state["inner"]["a/b"]) + self.state["all"] + (0 if last is None else last.sum())
                weight.sub_(0.001 * group["lr"] * size * weight.grad.sign())


MAKERS = {
    "keeps": Keeping,
    "counts": Counting,
    "sgd": lambda groups: torch.optim.SGD(groups, momentum=0.9),
    "adagrad": torch.optim.Adagrad,  # has its state from the start
    "adafactor": torch.optim.Adafactor,  # a row and a column for each matrix
    "nadam": torch.optim.NAdam,  # numbers for each weight
    "two": lambda groups: [
        torch.optim.Adagrad([groups[0]]),
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
    assert all(not torch.equal(weight, final[0][key]) for key, weight in network().state_dict().items())


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


def test_an_optimiser_that_makes_the_loss_larger_is_refused():
    register_optimizer("mine")(lambda groups: torch.optim.SGD(groups, maximize=True))
    with pytest.raises(RecipeError, match="'mine' has maximize = True") as refused:
        build_optimizer(network(), OptimizerSettings(kind="mine"))
    assert refused.value.hint


def test_only_the_updates_of_regards_own_are_left_to_a_gpu():
    """Whether another fused update heeds what the GPU decides is not known."""
    makers = (
        lambda groups: torch.optim.SGD(groups, fused=True),
        lambda groups: torch.optim.AdamW(groups, fused=True),
        lambda groups: [torch.optim.SGD(groups[:1]), torch.optim.Adam(groups[1:], fused=True)],
    )
    for make in makers:
        register_optimizer("mine")(make)
        net = network()
        optimizer = build_optimizer(net, OptimizerSettings(kind="mine"))
        assert not is_fused(optimizer)
        for _ in range(2):
            steps(net, optimizer)
        assert optimizer_files(net, optimizer), "all of its state is saved, as of any registered one"
    assert is_fused(build_optimizer(network(), OptimizerSettings()))


@pytest.mark.parametrize(
    ("make", "options", "message", "hint"),
    [
        (lambda groups, momentum=0.9: None, {"momentun": 0.9}, "momentun", "momentum"),
        (lambda groups: None, {"momentum": 0.9}, "momentum", "it has no options"),
        (lambda groups, momentum: None, {}, "missing a required argument: 'momentum'", "options"),
        (lambda groups, size=2, lr=1.0: None, {"sise": 1}, "sise", "did you mean 'size'"),
        (lambda groups, lr: None, {"lr": 1}, "options.lr has no effect", "schedule.learning_rate"),
        (torch.optim.SGD, {"weight_decay": 1}, "options.weight_decay has", "optimizer.weight_decay"),
        (torch.optim.SGD, {"momentum": -1.0}, "cannot be made: ValueError: Invalid momentum", "options"),
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


def test_an_error_of_its_own_for_users_stays_as_it_is():
    def make(groups):
        raise UserError("it needs a GPU", "run it on one")

    register_optimizer("mine")(make)
    with pytest.raises(UserError, match=r"^it needs a GPU$"):
        build_optimizer(network(), OptimizerSettings(kind="mine"))


def test_one_with_other_weights_for_validation_is_refused():
    class Averaging(torch.optim.SGD):
        def train(self): ...

        def eval(self): ...

    register_optimizer("mine")(Averaging)
    with pytest.raises(RecipeError, match="the methods train and eval"):
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


def name_of_type(value):
    return type(value).__name__


class Storing(WithoutDecay):
    """Puts a value into the state of its first weight."""

    def __init__(self, groups, value):
        super().__init__(groups)
        self.value = (value,)

    def step(self, closure=None):
        weight = self.param_groups[0]["params"][0]
        self.state[weight]["kept"] = self.value[0](weight)


CANNOT = {
    "set": (lambda weight: {1, 2}, "set"),
    "complex128": (lambda weight: torch.ones(2, dtype=torch.complex128), "a tensor of torch.complex128"),
    "float8": (lambda weight: torch.ones(2).to(torch.float8_e4m3fn), "a tensor of torch.float8_e4m3fn"),
    "sparse": (lambda weight: torch.ones(2).to_sparse(), "a tensor of torch.sparse_coo"),
    "last number": (
        lambda weight: weight.detach().flatten()[-1:],
        "a tensor that shares the memory of the w",
    ),
    "view": (lambda weight: weight.detach()[:1], "a tensor that shares the memory of the weight 0.weight"),
}


@pytest.mark.parametrize("name", CANNOT)
def test_state_that_a_checkpoint_cannot_have_is_refused_by_name_after_the_first_update(name):
    value, message = CANNOT[name]
    register_optimizer("mine")(lambda groups: Storing(groups, value))
    net = network()
    place = "'#?0.weight/kept', "
    with pytest.raises(RunError, match=rf"{place}{message}.*cannot be saved"):
        steps(net, build_optimizer(net, OptimizerSettings(kind="mine")))


def test_state_of_divided_weights_is_divided_as_they_are():
    """By FSDP; a number of each weight is whole."""
    register_optimizer("mine")(lambda groups: torch.optim.SGD(groups, momentum=0.5))
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings(kind="mine"))
    weight = net[0].weight
    slots = optimizer.state[weight] = {"mean": torch.zeros(8, 4), "step": torch.zeros(())}
    weight.placements = slots["mean"].placements = ("by rows",)
    assert optimizer_tensors(net, optimizer).keys() == {"0.weight/mean", "0.weight/step"}

    def check_refused(name):
        with pytest.raises(RunError, match=rf"'{name}', a tensor that is not divided as its weight"):
            optimizer_tensors(net, optimizer)

    for shape, placements in (((8, 4), ("by columns",)), ((4, 4), ("by rows",)), ((), ("by rows",))):
        slots["mean"] = torch.zeros(shape)
        slots["mean"].placements = placements
        check_refused("0.weight/mean")
    slots["mean"] = torch.zeros(8, 4)
    check_refused("0.weight/mean")
    del slots["mean"]
    optimizer.param_groups[0]["table"] = torch.zeros(3)
    check_refused("#0/table")


def test_a_tensor_of_one_number_in_a_group_is_restored():
    register_optimizer("mine")(torch.optim.SGD)
    net = network()
    optimizer, other = (build_optimizer(net, OptimizerSettings(kind="mine")) for _ in range(2))
    optimizer.param_groups[0]["mean"] = torch.tensor(2.5)
    restore_optimizer(net, other, *saved(net, optimizer))
    assert other.param_groups[0]["mean"] == 2.5


def test_tensors_of_one_storage_that_do_not_overlap_are_tensors_of_their_own():
    """As those that PyTorch computes for a list of tensors at once."""

    def parts(weight):
        first, second, third = torch.arange(6.0).split(2)
        return [second, first, third]

    register_optimizer("mine")(lambda groups: Storing(groups, parts))
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings(kind="mine"))
    steps(net, optimizer)
    other = build_optimizer(net, OptimizerSettings(kind="mine"))
    restore_optimizer(net, other, *saved(net, optimizer))
    found = other.state[net[0].weight]["kept"]
    assert [part.tolist() for part in found] == [[2.0, 3.0], [0.0, 1.0], [4.0, 5.0]]


def test_a_number_in_an_attribute_is_refused():
    """A checkpoint has groups and the state of weights alone."""

    class Counter(WithoutDecay):
        count = 0

        def step(self, closure=None):
            self.count += 1

    register_optimizer("mine")(lambda groups: [Counter(groups[:1]), torch.optim.SGD(groups[1:])])
    net = network()
    with pytest.raises(RunError, match="Counter changes its attribute 'count'"):
        steps(net, build_optimizer(net, OptimizerSettings(kind="mine")))


def test_an_attribute_may_be_set_again_to_what_it_was():
    class Setting(WithoutDecay):
        def __init__(self, groups, later):
            super().__init__(groups)
            self.size, self.nothing, self.later = float("1234.5"), math.nan, later

        def step(self, closure=None):
            self.size = float(self.later)

    net = network()
    for later in ("1234.5", "7.0"):
        register_optimizer("mine")(lambda groups, later=later: Setting(groups, later))
        with nullcontext() if later == "1234.5" else pytest.raises(RunError, match="attribute 'size'"):
            steps(net, build_optimizer(net, OptimizerSettings(kind="mine")))


def test_what_an_attribute_keeps_is_refused():
    """An optimiser around another one, and tensors that are no weights."""

    class Around(WithoutDecay):
        def __init__(self, groups, keep):
            super().__init__(groups)
            weights = self.param_groups[0]["params"]
            self.kept = keep(weights)
            self.weights = {"all": [*weights]}  # the weights themselves

    for keep in (
        lambda weights: torch.optim.SGD(weights),
        lambda weights: {weights[0]: torch.zeros(2)},
        lambda weights: [torch.Generator()],
    ):
        register_optimizer("mine")(lambda groups, keep=keep: Around(groups, keep))
        net = network()
        with pytest.raises(RunError, match="Around keeps tensors in its attribute 'kept'"):
            steps(net, build_optimizer(net, OptimizerSettings(kind="mine")))
    register_optimizer("mine")(lambda groups: Around(groups, lambda weights: None))
    steps(net, build_optimizer(net, OptimizerSettings(kind="mine")))


def with_a_value(value):
    """An optimiser with the value in its first group."""
    return lambda groups: torch.optim.SGD([{**groups[0], "kept": value}, groups[1]])


@pytest.mark.parametrize("value", [{1}, torch.Generator(), SimpleNamespace(count=1)], ids=name_of_type)
def test_what_may_change_within_a_group_and_cannot_be_saved_is_refused(value):
    register_optimizer("mine")(with_a_value(value))
    net = network()
    with pytest.raises(RunError, match=r"'#0/kept', .*, which cannot be saved"):
        steps(net, build_optimizer(net, OptimizerSettings(kind="mine")))


@pytest.mark.parametrize("value", [torch.sign, network, signal.SIGINT, nn.Linear], ids=name_of_type)
def test_functions_and_classes_in_a_group_are_those_that_the_optimiser_is_made_with(value):
    register_optimizer("mine")(with_a_value(value))
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings(kind="mine"))
    steps(net, optimizer)
    restore_optimizer(net, optimizer, *saved(net, optimizer))
    assert optimizer.param_groups[0]["kept"] is value


def test_one_that_saves_itself_in_another_way_is_refused():
    class Own(torch.optim.SGD):
        def state_dict(self):
            return {**super().state_dict(), "more": 1}

    register_optimizer("mine")(Own)
    with pytest.raises(RecipeError, match="'mine' has a state_dict of its own"):
        build_optimizer(network(), OptimizerSettings(kind="mine"))


def test_options_are_what_a_recipe_can_have():
    with pytest.raises(RecipeError, match="options must be numbers, texts and lists"):
        OptimizerSettings(kind="mine", options={"function": torch.sign})


def saved(net, optimizer):
    files = optimizer_files(net, optimizer)
    tensors = {name: tensor.clone() for name, tensor in optimizer_tensors(net, optimizer).items()}
    return tensors, lambda name: json.loads(files[name])


def test_the_state_of_another_optimiser_or_model_is_refused():
    register_optimizer("mine")(Counting)
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings(kind="mine"))
    steps(net, optimizer)
    found = saved(net, optimizer)
    register_optimizer("mine")(lambda groups: WithoutDecay(groups[0]["params"] + groups[1]["params"]))
    with pytest.raises(FolderError, match="state of 2 groups, and the optimiser has 1"):
        restore_optimizer(net, build_optimizer(net, OptimizerSettings(kind="mine")), *found)
    register_optimizer("mine")(Counting)
    other = nn.Sequential(nn.Linear(4, 8))
    with pytest.raises(FolderError, match=r"'1\.weight', which the model lacks|'2\.weight', which"):
        restore_optimizer(other, build_optimizer(other, OptimizerSettings(kind="mine")), *found)


def test_what_is_restored_of_the_start_has_forgotten_all_updates():
    """As after a collapse, when training goes back to a checkpoint of the first step."""
    register_optimizer("mine")(Keeping)
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings(kind="mine"))
    start = saved(net, optimizer)
    keys = [{*group} for group in optimizer.param_groups]
    steps(net, optimizer)
    steps(net, optimizer)
    restore_optimizer(net, optimizer, *start)
    assert not optimizer.state
    assert [{*group} for group in optimizer.param_groups] == keys
    assert saved(net, optimizer)[1]("optimizer.json") == start[1]("optimizer.json")


def test_values_are_restored_as_the_types_that_they_were():
    register_optimizer("mine")(Keeping)
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings(kind="mine"))
    for _ in range(2):
        steps(net, optimizer)
    other = build_optimizer(net, OptimizerSettings(kind="mine"))
    restore_optimizer(net, other, *saved(net, optimizer))
    for mine, restored in zip(optimizer.param_groups, other.param_groups, strict=True):
        for key in mine.keys() - {"params", "names", "lr"}:
            assert (type(mine[key]), mine[key]) == (type(restored[key]), restored[key]), key
    mine, restored = optimizer.state[net[0].weight], other.state[net[0].weight]
    assert [*mine] == [*restored]
    assert restored["again"] is restored["inner"][0]
    assert restored["shared"] is other.state[net[2].weight]["shared"]
    assert restored["itself"] is net[0].weight
    for key in ("last", "again", "shared"):
        assert restored[key].dtype == mine[key].dtype
        assert torch.equal(restored[key], mine[key])
    assert other.state["all"] == 2


def test_an_option_that_a_decorator_hides_is_refused_before_there_is_a_model():
    register_optimizer("hidden")(lambda *given, **options: torch.optim.SGD(*given, **options))
    refuse_unknown_optimizer("hidden", {"momentum": 0.9})
    with pytest.raises(RecipeError, match=r"optimizer\.options: the optimiser 'hidden': .*'momentm'"):
        refuse_unknown_optimizer("hidden", {"momentm": 0.9})
