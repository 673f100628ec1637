"""The optimiser state survives saving; weight decay does not change biases and norms."""

import pytest
import torch
from torch import nn

from regard.errors import FolderError, RecipeError
from regard.fast.decoding_step import fast_step
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training.optimizer import OptimizerSettings, build_optimizer, set_learning_rate
from regard.training.optimizer_state import optimizer_tensors, restore_optimizer


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
def test_an_update_invalidates_what_was_computed_from_the_weights(kind):
    """Fast decoding caches packed weights: a validation must not decode with outdated ones."""
    config = EncoderDecoderConfig(
        src_vocab_size=9, tgt_vocab_size=9, d_model=8, num_heads=2, d_ff=8,
        num_encoder_layers=1, num_decoder_layers=1, dropout=0.0,
    )  # fmt: skip
    model = build_model(config, seed=1).eval()
    optimizer = build_optimizer(model, OptimizerSettings(kind=kind))
    made = fast_step(model)
    assert fast_step(model) is made, "it is made once for the same weights"
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    set_learning_rate(optimizer, 0.1)
    optimizer.step()
    assert made is None or fast_step(model) is not made


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_until_a_rate_is_set_an_update_changes_nothing(kind):
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings(kind=kind))
    before = [parameter.clone() for parameter in net.parameters()]
    net(torch.ones(5, 4)).square().sum().backward()
    optimizer.step()
    for old, new in zip(before, net.parameters(), strict=True):
        assert torch.equal(old, new)


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_a_restored_optimiser_continues_to_the_same_bits(kind):
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


def test_what_is_restored_of_the_start_has_forgotten_all_steps():
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings())
    before = optimizer_tensors(net, optimizer)
    steps(net, optimizer, 2)
    restore_optimizer(net, optimizer, before)
    assert optimizer_tensors(net, optimizer) == before == {}


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


def test_l2_is_half_the_square_of_all_parameters_in_the_loss():
    plain, penalised = network(), network()
    with_term = build_optimizer(plain, OptimizerSettings())
    by_setting = build_optimizer(penalised, OptimizerSettings(l2=0.3))
    x = torch.randn(5, 4)
    for _ in range(3):
        for net, optimizer, term in ((plain, with_term, 0.3 / 2), (penalised, by_setting, 0.0)):
            optimizer.zero_grad()
            squares = sum(parameter.square().sum() for parameter in net.parameters())
            (net(x).square().sum() + term * squares).backward()
            set_learning_rate(optimizer, 0.01)
            optimizer.step()
    for expected, found in zip(plain.parameters(), penalised.parameters(), strict=True):
        torch.testing.assert_close(found, expected)


def test_state_of_another_model_is_refused_by_name():
    net = network()
    optimizer = build_optimizer(net, OptimizerSettings())
    with pytest.raises(FolderError, match=r"9\.weight"):
        restore_optimizer(net, optimizer, {"9.weight/exp_avg": torch.zeros(1)})
    with pytest.raises(FolderError, match=r"0\.weight is \(3, 3\)"):
        restore_optimizer(net, optimizer, {"0.weight/exp_avg": torch.zeros(3, 3)})


def test_the_defaults_are_those_of_the_paper():
    """Section 5.3 of Vaswani et al. 2017; without decay, and with one rate for all layers."""
    [*groups] = build_optimizer(network(), OptimizerSettings()).param_groups
    for group in groups:
        assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.9, 0.98), 1e-9, 0.0)
        assert group["scale"] == 1.0
    assert OptimizerSettings().layer_decay == 1.0


def test_only_common_weights_on_a_cpu_have_the_fused_update():
    """It takes a quarter of the time; a kind of tensor of its own may not support it."""
    narrow, mixed, special = network().bfloat16(), network(), network()
    mixed[0].bfloat16()
    special[0].weight = type("Own", (nn.Parameter,), {})(special[0].weight.detach())
    expected = [
        (network(), True),
        (network().double(), True),
        (narrow, None),
        (mixed, None),
        (special, None),
        (network().to("meta"), None),
    ]
    for net, fused in expected:
        assert build_optimizer(net, OptimizerSettings()).defaults["fused"] is fused


def test_on_a_gpu_a_special_kind_of_weight_has_it_unless_it_is_divided(monkeypatch):
    monkeypatch.setattr("regard.training.optimizer.is_asynchronous", lambda device: True)
    for fused in (True, None):
        net = network()
        net[0].weight = type("Own", (nn.Parameter,), {})(net[0].weight.detach())
        if not fused:
            net[0].weight.placements = ()
        assert build_optimizer(net, OptimizerSettings()).defaults["fused"] is fused


def test_state_is_restored_to_the_device_of_the_weights_but_steps_are_counted_on_the_cpu():
    net = network().to("meta")
    optimizer = build_optimizer(net, OptimizerSettings())
    saved = {f"0.bias/{slot}": torch.ones(8) for slot in ("exp_avg", "exp_avg_sq")}
    restore_optimizer(net, optimizer, {**saved, "0.bias/step": torch.ones(())})
    state = optimizer.state[net[0].bias]
    assert {slot: value.device.type for slot, value in state.items()} == {
        "exp_avg": "meta",
        "exp_avg_sq": "meta",
        "step": "cpu",
    }


def test_settings_at_their_limits_are_accepted():
    OptimizerSettings(beta1=0.0, beta2=0.0, l2=0.0, weight_decay=0.0, layer_decay=1.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beta1": 1.0}, r"beta1 must lie in \[0, 1\), not 1.0"),
        ({"beta2": 1.0}, r"beta2 must lie in \[0, 1\), not 1.0"),
        ({"beta2": -0.1}, r"beta2 must lie in \[0, 1\), not -0.1"),
        ({"l2": -0.1}, "l2 must be 0 or more, not -0.1"),
        ({"l2": -0.1, "kind": "adamw"}, "l2 must be 0 or more, not -0.1"),
        ({"l2": 0.1, "kind": "adamw"}, "l2 needs kind = 'adam'"),
        ({"epsilon": 0.0}, "epsilon must be above 0, not 0.0"),
        ({"weight_decay": -1.0}, "weight_decay must be 0 or more, not -1.0"),
        ({"weight_decay": -1.0, "kind": "adamw"}, "weight_decay must be 0 or more, not -1.0"),
        ({"weight_decay": 0.1}, "weight_decay needs kind = 'adamw'"),
        ({"layer_decay": 0.0}, "layer_decay must be above 0 and at most 1, not 0.0"),
        ({"layer_decay": 1.1}, "layer_decay must be above 0 and at most 1, not 1.1"),
    ],
    ids=str,
)
def test_a_value_that_cannot_work_is_refused_by_name_and_with_the_reason(wrong, message):
    with pytest.raises(RecipeError, match=message) as refused:
        OptimizerSettings(**wrong)
    assert refused.value.hint


class Layered(nn.Module):
    """A module before the layers, three layers, a module after them, a head."""

    def __init__(self):
        super().__init__()
        self.input = nn.Linear(4, 4)
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = self.input(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def rates(net, optimizer):
    rate_of = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    return {name: rate_of[id(parameter)] for name, parameter in net.named_parameters()}


def test_rates_fall_from_the_head_down_by_a_constant_factor():
    net = Layered()
    optimizer = build_optimizer(net, OptimizerSettings(layer_decay=0.5))
    set_learning_rate(optimizer, 0.8)
    found = rates(net, optimizer)
    assert found["head.weight"] == found["head.bias"] == found["norm.weight"] == 0.8
    assert [found[f"blocks.{i}.weight"] for i in range(3)] == [0.1, 0.2, 0.4]
    assert found["input.weight"] == 0.05


def test_one_rate_for_all_is_as_if_there_were_no_layers():
    net = Layered()
    optimizer = build_optimizer(net, OptimizerSettings())
    set_learning_rate(optimizer, 0.3)
    assert set(rates(net, optimizer).values()) == {0.3}
    assert len(optimizer.param_groups) == 2


def test_a_smaller_rate_is_a_smaller_step():
    net = Layered()
    before = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
    steps(net, build_optimizer(net, OptimizerSettings(layer_decay=0.1)), 1)
    moved = {
        name: (parameter - before[name]).abs().max().item() for name, parameter in net.named_parameters()
    }
    assert moved["head.weight"] == pytest.approx(0.01, rel=0.01)  # Adam's first step is the rate
    assert moved["blocks.2.weight"] == pytest.approx(0.001, rel=0.01)
    assert moved["input.weight"] == pytest.approx(1e-6, rel=0.1)


def test_state_with_many_rates_continues_to_the_same_bits():
    settings = OptimizerSettings(kind="adamw", layer_decay=0.7, weight_decay=0.1)
    whole = Layered()
    optimizer = build_optimizer(whole, settings)
    steps(whole, optimizer, 3)
    saved = {name: tensor.clone() for name, tensor in optimizer_tensors(whole, optimizer).items()}
    resumed = Layered()
    resumed.load_state_dict(whole.state_dict())
    other = build_optimizer(resumed, settings)
    restore_optimizer(resumed, other, saved)
    steps(whole, optimizer, 2)
    steps(resumed, other, 2)
    for expected, found in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(expected, found)


def test_a_model_without_layers_has_no_rates_by_layer():
    with pytest.raises(RecipeError, match="layer_decay"):
        build_optimizer(network(), OptimizerSettings(layer_decay=0.9))
