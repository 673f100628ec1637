"""Adapters are put on from outside, change nothing at first, and merge into the same logits."""

import copy

import pytest
import torch
from torch import nn

from regard.errors import ConfigError
from regard.layers.stacked import StackedLinear
from regard.models.adapters import Adapter, AdapterSettings, adapters_of, add_lora, merge_lora, merged
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.graph import GraphConfig

SMALL = {"d_model": 16, "num_heads": 4, "d_ff": 32}
SRC = torch.tensor([[4, 9, 17, 25, 6, 3], [8, 8, 29, 3, 0, 0]])
LENGTHS = torch.tensor([6, 4])
TGT = torch.tensor([[2, 7, 19, 4, 23], [2, 28, 28, 5, 0]])


@pytest.fixture
def model():
    config = EncoderDecoderConfig(
        src_vocab_size=30, tgt_vocab_size=30, num_encoder_layers=1, num_decoder_layers=1, **SMALL
    )
    return build_model(config, seed=0).eval()


def learn(model):
    """As training would: every adapter is moved away from zero."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for _, adapter in adapters_of(model).values():
            adapter.up += 0.2 * torch.randn(adapter.up.shape, generator=generator)


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_the_first_output_is_that_of_the_model_to_the_bit(model):
    before = model(SRC, LENGTHS, TGT)
    names = add_lora(model, rank=4)
    assert torch.equal(model(SRC, LENGTHS, TGT), before)
    assert len(names) == 2 + 2 + 4, "query_key_value and output of self-attention; four of cross-attention"
    assert all("attention" in name for name in names)


def test_merged_weights_give_the_logits_of_the_adapted_model_and_leave_no_trace(model):
    plain, names = weights(model), {name for name, _ in model.named_modules()}
    add_lora(model, rank=4, targets=["self_attention", "feed_forward"])
    learn(model)
    adapted = model(SRC, LENGTHS, TGT)
    merge_lora(model)
    assert not torch.allclose(adapted, build_model(model.config, seed=0).eval()(SRC, LENGTHS, TGT), atol=1e-3)
    torch.testing.assert_close(model(SRC, LENGTHS, TGT), adapted, atol=1e-5, rtol=0)
    assert model.state_dict().keys() == plain.keys()
    assert {name for name, _ in model.named_modules()} == names
    assert not any(module._forward_hooks for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, plain[name])}
    assert changed
    assert all("self_attention" in name or "feed_forward" in name for name in changed)


def test_only_adapters_are_trained(model):
    before = weights(model)
    add_lora(model, rank=2)
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert trained
    assert all(name.endswith((".adapter.down", ".adapter.up")) for name in trained)
    learn(model)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.1)
    adapters = {name: tensor for name, tensor in weights(model).items() if ".adapter." in name}
    model(SRC, LENGTHS, TGT).square().sum().backward()
    optimizer.step()
    after = model.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert not any(torch.equal(after[name], tensor) for name, tensor in adapters.items())


def test_while_it_is_merged_it_is_plain_and_afterwards_as_it_was_to_the_bit(model):
    plain = set(weights(model))
    add_lora(model, rank=4, dropout=0.5)
    learn(model)
    own, adapted = weights(model), model(SRC, LENGTHS, TGT)
    with merged(model):
        assert set(model.state_dict()) == plain
        torch.testing.assert_close(model(SRC, LENGTHS, TGT), adapted, atol=1e-5, rtol=0)
    assert all(torch.equal(tensor, own[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(model(SRC, LENGTHS, TGT), adapted)
    assert not torch.equal(model.train()(SRC, LENGTHS, TGT), model(SRC, LENGTHS, TGT)), "dropout is on"


def test_stacked_maps_are_adapted_each_by_itself():
    """As separate linear layers would be, whose adapters know nothing of each other."""
    stacked = StackedLinear(6, (4, 3, 5))
    adapter = Adapter(stacked, AdapterSettings(rank=2), torch.Generator().manual_seed(0))
    with torch.no_grad():
        adapter.up.copy_(torch.randn(12, 2))
    x = torch.randn(3, 6)
    expected = []
    for number, (start, width) in enumerate(((0, 4), (4, 3), (7, 5))):
        down, up = adapter.down[2 * number : 2 * number + 2], adapter.up[start : start + width]
        expected.append(8 * (x @ down.T @ up.T))
    torch.testing.assert_close(adapter(x), torch.cat(expected, dim=-1))
    torch.testing.assert_close(x @ adapter.matrix().T, adapter(x))


def test_the_scale_is_alpha_over_the_rank():
    linear = nn.Linear(6, 4)
    one = Adapter(linear, AdapterSettings(rank=2, alpha=2.0), torch.Generator().manual_seed(0))
    other = Adapter(linear, AdapterSettings(rank=2, alpha=6.0), torch.Generator().manual_seed(0))
    with torch.no_grad():
        one.up.fill_(0.5)
        other.up.fill_(0.5)
    x = torch.randn(3, 6)
    torch.testing.assert_close(other(x), 3 * one(x))


def test_a_copy_of_an_adapted_model_is_adapted_by_itself(model):
    add_lora(model, rank=4)
    learn(model)
    twin = copy.deepcopy(model)
    adapted = model(SRC, LENGTHS, TGT)
    assert torch.equal(twin(SRC, LENGTHS, TGT), adapted)
    merge_lora(twin)
    assert not adapters_of(twin)
    assert torch.equal(model(SRC, LENGTHS, TGT), adapted)


def test_the_seed_draws_the_adapters(model):
    twins = [copy.deepcopy(model) for _ in range(3)]
    torch.manual_seed(0)
    state = torch.get_rng_state()
    for twin, seed in zip(twins, (5, 5, 6), strict=True):
        add_lora(twin, rank=2, seed=seed)
    first, second, third = (next(iter(adapters_of(twin).values()))[1].down for twin in twins)
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("targets", "count"),
    [(["query_key_value"], 2), (["encoder.blocks.0"], 4), (["cross_attention.query", "inner"], 3)],
)
def test_a_target_is_whole_words_of_a_name(model, targets, count):
    assert len(add_lora(model, rank=1, targets=targets)) == count


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"targets": ["self_attention", "feed_foward"]}, "feed_foward", ""),
        ({"targets": ["query_key_valu"]}, "query_key_valu", "query_key_value"),
        ({"targets": ["output"], "rank": 2}, "shares its weight", "targets"),
        ({"rank": 17}, "more than", "lower"),
        ({"rank": 0}, "1 or more", "8"),
        ({"alpha": 0.0}, "above 0", "rank"),
        ({"dropout": 1.0}, "dropout", "<"),
    ],
)
def test_what_cannot_be_adapted_is_refused_and_the_model_is_as_it_was(model, options, message, hint):
    with pytest.raises(ConfigError, match=message) as caught:
        add_lora(model, **options)
    assert hint in caught.value.hint
    assert not adapters_of(model)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_second_set_of_adapters_is_refused(model):
    add_lora(model, rank=2)
    with pytest.raises(ConfigError, match="already"):
        add_lora(model, rank=2)


def test_a_weight_that_is_read_past_its_layer_is_no_place_for_an_adapter():
    graph = build_model(GraphConfig(num_features=7, num_labels=3, d_model=16, num_heads=2), seed=0)
    with pytest.raises(ConfigError, match="sparse features"):
        add_lora(graph, rank=2, targets=["value"])
    with pytest.raises(ConfigError, match="no attention"):
        add_lora(graph, rank=2)


def test_an_encoder_is_adapted_but_for_what_its_head_shares_with_it():
    config = EncoderOnlyConfig(vocab_size=30, head="masked_language_model", num_layers=2, **SMALL)
    model = build_model(config, seed=0).eval()
    add_lora(model, rank=2, targets=["encoder", "head.transform"])
    before = model(SRC, LENGTHS)
    learn(model)
    assert not torch.equal(model(SRC, LENGTHS), before)
    with pytest.raises(ConfigError, match=r"head\.output shares its weight with encoder\.input\.embedding"):
        add_lora(build_model(config, seed=0), rank=2, targets=["head"])


def test_a_soft_capped_output_is_no_place_for_an_adapter():
    config = DecoderOnlyConfig(
        vocab_size=9, d_model=8, num_heads=2, d_ff=8, num_layers=1, tied=False, logit_softcap=3.0
    )
    with pytest.raises(ConfigError, match="output is soft-capped"):
        add_lora(build_model(config, seed=1), targets=["output"], rank=2)
