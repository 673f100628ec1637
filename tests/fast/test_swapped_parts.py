"""One part of a model is changed, in each way that PyTorch allows: the fast forms still agree with it."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

from regard.data.batch import PairBatch
from regard.decoding.step import ModelStepper
from regard.fast import unchanged
from regard.fast.decoding_step import fast_step, why_plain
from regard.fast.native import kernels
from regard.fast.training import fuse, fused
from regard.layers.scaled_dot_product import plain_attention
from regard.models.adapters import adapters_of, add_lora
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from regard.training.objective import CrossEntropy
from tests.nightly import each_once

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no C compiler")
VOCAB, ROWS = 40, 3
PARTS = {
    "input": "decoder.input",
    "embedding": "decoder.input.embedding",
    "positions": "decoder.input.positions",
    "rotary positions": "decoder.blocks.0.self_attention.rotary",
    "stack": "decoder",
    "encoder": "encoder",
    "block": "decoder.blocks.1",
    "encoder block": "encoder.blocks.0",
    "self-attention": "decoder.blocks.0.self_attention",
    "cross-attention": "decoder.blocks.1.cross_attention",
    "encoder's attention": "encoder.blocks.0.self_attention",
    "stacked linear": "decoder.blocks.0.self_attention.query_key_value",
    "residual": "decoder.blocks.0.around_feed_forward",
    "norm": "decoder.blocks.0.around_feed_forward.norm",
    "feed-forward": "decoder.blocks.0.feed_forward",
    "linear": "decoder.blocks.1.feed_forward.inner",
    "head": "output",
}
IN_TRAINING = [name for name in PARTS if name not in ("input", "stack", "encoder")]


@torch.no_grad()
def translator(part="", seed=1):
    positions = "rotary" if part == "rotary positions" else "sinusoidal"
    config = EncoderDecoderConfig(
        src_vocab_size=VOCAB, tgt_vocab_size=VOCAB, d_model=32, num_heads=2, d_ff=48, num_encoder_layers=1,
        num_decoder_layers=2, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, tied="none",
        positions=positions,
    )  # fmt: skip
    model = build_model(config, seed=seed).eval()
    torch.manual_seed(2)
    for parameter in model.parameters():
        parameter += 0.1 * torch.randn_like(parameter)
    return model


def drawn_ids(*shape):
    return torch.randint(4, VOCAB, shape, generator=torch.Generator().manual_seed(3))


SOURCES, LENGTHS, TARGETS = drawn_ids(ROWS, 5), torch.tensor([5, 3, 4]), drawn_ids(ROWS, 6)


@torch.no_grad()
def read_at_once(model):
    """The logits of the model itself, of all positions in one pass."""
    return model(SOURCES, LENGTHS, TARGETS)


@torch.no_grad()
def stepped(model):
    """Those of decoding, position by position."""
    stepper = ModelStepper(model)
    stepper.start(SOURCES, LENGTHS)
    return torch.stack([stepper.logits(TARGETS[:, place]) for place in range(TARGETS.size(1))], dim=1)


def learned(model):
    """The loss of training and the gradients of all parameters."""
    batch = PairBatch(
        lines=torch.arange(ROWS), src_ids=SOURCES, src_lengths=LENGTHS, tgt_ids=TARGETS,
        tgt_lengths=torch.full((ROWS,), TARGETS.size(1)),
    )  # fmt: skip
    model.train().zero_grad()
    loss = CrossEntropy(smoothing=0.1)(model, batch).total
    loss.backward()
    return loss.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]


def agree_in_decoding(model, changed):
    expected = read_at_once(model)
    if changed is not None:
        assert (expected - changed).abs().max() > 1e-3, "the change shows"
    torch.testing.assert_close(stepped(model), expected, rtol=1e-4, atol=1e-4)


def agree_in_training(model, unchanged):
    expected, gradients = learned(model)
    assert (expected - unchanged).abs() > 1e-3, "the change shows"
    with fused(model):
        loss, found = learned(model)
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found, gradients, rtol=1e-3, atol=1e-3)


def by_subclass(module, patch):
    kind = type(module)
    own = type("Own", (kind,), {"forward": lambda self, *a, **k: 1.25 * kind.forward(self, *a, **k)})
    module.__class__ = own


def by_instance(module, patch):
    usual = module.forward
    module.forward = lambda *given, **named: 1.25 * usual(*given, **named)


def by_class(module, patch):
    kind, usual = type(module), type(module).forward
    patch.setattr(kind, "forward", lambda self, *given, **named: 1.25 * usual(self, *given, **named))


def by_hook(module, patch):
    module.register_forward_hook(lambda module, given, found: 1.25 * found)


def by_global_hook(module, patch):
    handle = nn.modules.module.register_module_forward_hook(
        lambda each, given, found: 1.25 * found if each is module else None
    )
    patch.handles.append(handle)


WAYS = [by_subclass, by_instance, by_class, by_hook, by_global_hook]


@pytest.fixture
def patch(monkeypatch):
    monkeypatch.handles = []
    yield monkeypatch
    for handle in monkeypatch.handles:
        handle.remove()
    unchanged._methods.cache_clear()  # what is first seen while it is patched counts as changed ever after


@pytest.mark.parametrize(("part", "way"), each_once(list(PARTS), WAYS))
def test_a_changed_part_is_decoded_with(part, way, patch):
    model = translator(part)
    usual = stepped(model)
    assert fast_step(model) is not None, why_plain(model)
    torch.testing.assert_close(usual, read_at_once(model), rtol=1e-4, atol=1e-4)
    way(model.get_submodule(PARTS[part]), patch)
    agree_in_decoding(model, usual)
    assert why_plain(model)


@pytest.mark.parametrize(("part", "way", "when"), each_once(IN_TRAINING, WAYS, ["before", "after"]))
def test_a_changed_part_is_trained_with(part, way, when, patch):
    """Changed before the model was fused, or while it is."""
    model = translator(part)
    unchanged, _ = learned(copy.deepcopy(model))
    if when == "before":
        way(model.get_submodule(PARTS[part]), patch)
        agree_in_training(model, unchanged)
        return
    plain = copy.deepcopy(model)
    way(plain.get_submodule(PARTS[part]), patch)
    fuse(model)
    if way is not by_class:
        way(model.get_submodule(PARTS[part]), patch)
    expected, gradients = learned(plain)
    assert (expected - unchanged).abs() > 1e-3, "the change shows"
    loss, found = learned(model)
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found, gradients, rtol=1e-3, atol=1e-3)


class Louder(EncoderDecoder):
    """A model with a head of its own."""

    def project(self, hidden):
        return 2 * super().project(hidden)


def project_of_subclass(model, patch):
    model.__class__ = Louder


def project_of_instance(model, patch):
    model.project = lambda hidden: 2 * model.output(hidden)


def project_of_class(model, patch):
    patch.setattr(EncoderDecoder, "project", lambda self, hidden: 2 * self.output(hidden))


@pytest.mark.parametrize("way", [project_of_subclass, project_of_instance, project_of_class])
def test_an_overridden_project_is_decoded_and_trained_with(way, patch):
    model = translator()
    usual, (unchanged, _) = stepped(model), learned(copy.deepcopy(model))
    way(model, patch)
    agree_in_decoding(model, usual)
    agree_in_training(model, unchanged)


def weight_norm(model):
    for name in ("output", "decoder.blocks.0.feed_forward.inner", "encoder.blocks.0.self_attention.output"):
        linear = parametrizations.weight_norm(model.get_submodule(name))
        with torch.no_grad():
            linear.parametrizations.weight.original0 *= 1.5


def unmerged_adapters(model):
    add_lora(model, rank=2, targets=["self_attention", "output"])
    with torch.no_grad():
        for _, adapter in adapters_of(model).values():
            adapter.up.normal_(generator=torch.Generator().manual_seed(4))


def spectral_norm(model):
    parametrizations.spectral_norm(model.decoder.blocks[1].feed_forward.outer)


@pytest.mark.parametrize("way", [weight_norm, unmerged_adapters, spectral_norm])
def test_parametrised_weights_are_decoded_and_trained_with(way):
    model = translator()
    usual, (unchanged, _) = stepped(model), learned(copy.deepcopy(model))
    way(model)
    model.eval()
    agree_in_decoding(model, usual)
    if way is not spectral_norm:  # whose estimate improves with every pass of training
        agree_in_training(model, unchanged)


class HalfRotation(nn.Module):
    """Is no `RotaryPositions`, but can be used as one."""

    def __init__(self, rotary):
        super().__init__()
        self.rotary = rotary

    def forward(self, x, start=0):
        return (self.rotary(x, start) + x) / 2


def other_rotation(model):
    for block in (*model.encoder.blocks, *model.decoder.blocks):
        block.self_attention.rotary = HalfRotation(block.self_attention.rotary)


def faster_computed(model):
    rotary = model.decoder.blocks[0].self_attention.rotary
    usual = rotary.sines_and_cosines
    rotary.sines_and_cosines = lambda start, length: tuple(each * 0.5 for each in usual(start, length))


def one_other_base(model):
    part = copy.deepcopy(model.decoder.blocks[1].self_attention.rotary)
    part.base = 3.0
    part.sine, part.cosine = part._computed(0, 100, None)
    model.decoder.blocks[1].self_attention.rotary = part


def other_attend(model):
    for block in model.decoder.blocks:
        block.cross_attention.attend = lambda *given: plain_attention(*given) * 0.5


def other_activation(model):
    model.decoder.blocks[0].feed_forward.activation = lambda x: F.relu(x) ** 2


def known_activation(model):
    model.decoder.blocks[0].feed_forward.activation = F.silu


def known_network(model):
    model.decoder.blocks[0].feed_forward = nn.Linear(32, 32)


def other_scale(model):
    model.decoder.blocks[0].self_attention.scale = 1.5


def other_epsilon(model):
    model.decoder.blocks[0].around_feed_forward.norm.eps = 0.5


def other_embedding_scale(model):
    model.decoder.input.embedding.scale = 1.0


def other_norm_without_gain(model):
    model.decoder.blocks[0].around_feed_forward.norm = nn.LayerNorm(32, elementwise_affine=False)


@torch.no_grad()
def other_weights(model):
    model.decoder.blocks[0].feed_forward.inner.weight *= 1.5


def other_parameter(model):
    model.decoder.blocks[0].feed_forward.inner.weight = nn.Parameter(drawn_ids(48, 32) / VOCAB)


CHANGES = [
    *(other_rotation, faster_computed, one_other_base, other_attend, other_activation, known_activation),
    *(known_network, other_scale, other_epsilon, other_embedding_scale, other_norm_without_gain),
    *(other_weights, other_parameter),
]


@pytest.mark.parametrize("change", CHANGES)
def test_changed_settings_and_weights_are_noticed(change):
    """After a step has been made for the model as it was."""
    rotary = change in (other_rotation, faster_computed, one_other_base)
    model = translator("rotary positions" if rotary else "")
    usual = stepped(model)
    change(model)
    agree_in_decoding(model.eval(), usual)


def test_other_precision_takes_the_plain_form():
    model = translator()
    assert fast_step(model) is not None
    assert fast_step(model.double()) is None
    torch.testing.assert_close(stepped(model).double(), read_at_once(model), rtol=1e-4, atol=1e-4)


def test_a_part_in_training_mode_takes_the_plain_form():
    """Dropout at inference, for instance, to see how sure the model is."""
    model = translator()
    assert fast_step(model) is not None
    model.decoder.blocks[0].train()
    assert "training mode" in why_plain(model)


def test_a_fused_model_has_the_same_fast_step():
    """As one that is validated in the midst of its training."""
    model = translator()
    expected = stepped(model)
    with fused(model):
        assert fast_step(model) is not None, why_plain(model)
        assert torch.equal(stepped(model), expected)
    assert torch.equal(stepped(model), expected)
