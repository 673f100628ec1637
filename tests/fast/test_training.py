"""Models with fused forms learn as they do without them; hooked and changed modules are called."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.fast import dropout, fusible, training, training_attention
from regard.fast.fusible import can_be_fused
from regard.fast.native.kernels import available
from regard.fast.training import fuse, unfuse
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import RESIDUALS, DecoderBlock, PostNorm
from regard.layers.feedforward import FeedForward, feed_forward
from regard.layers.masks import causal_mask, padding_mask
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig

pytestmark = pytest.mark.skipif(not available(), reason="no C compiler")
WIDTH = 32


def decoder_block(position, p):
    torch.manual_seed(0)
    return DecoderBlock(
        SelfAttention(WIDTH, 2, dropout=p),
        MultiHeadAttention(WIDTH, 2, dropout=p),
        FeedForward(WIDTH, 48, dropout=p),
        lambda: RESIDUALS[position](lambda: nn.LayerNorm(WIDTH), p),
    )


ACTIVATED = "ActivateDroppedBackward"
FUSED = {"AddNormBackward", "AddDroppedBackward", "FeedForwardReLUBackward", "TrainingAttentionBackward"}


def fused_in(out):
    """The kernels of blocks that stand in the graph behind `out`."""
    return kernels_behind(out) & (FUSED | {ACTIVATED})


def kernels_behind(out):
    """The names of what stands in the graph behind `out`."""
    seen, waiting = set(), [out.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [before for before, _ in node.next_functions]
    return {node.name() for node in seen}


def learned(made, *, fused, monkeypatch):
    """What a block gives and its gradients, from one seed."""
    with monkeypatch.context() as patch:
        if not fused:
            for room in (training, dropout, training_attention):
                patch.setattr(room, "can_be_fused", lambda *given: False)
        torch.manual_seed(1)
        x, memory = (torch.randn(3, length, WIDTH, requires_grad=True) for length in (7, 5))
        out = made(x, memory, causal_mask(7), padding_mask(torch.tensor([5, 2, 4]), 5))
        known = FUSED - {"AddNormBackward"}
        if isinstance(made.around_feed_forward, PostNorm):
            known = FUSED - {"AddDroppedBackward"}
        elif not made.around_feed_forward.dropout.p:
            known -= {"AddDroppedBackward"}
        assert fused_in(out) == (known if fused else set())
        out.square().sum().backward()
        gradients = [x.grad, memory.grad, *(parameter.grad for parameter in made.parameters())]
        made.zero_grad()
    return out.detach(), gradients


@pytest.mark.parametrize("position", list(RESIDUALS))
@pytest.mark.parametrize("p", [0.0, 0.2])
def test_a_run_with_kernels_and_one_without_differ_by_rounding_alone(position, p, monkeypatch):
    made = decoder_block(position, p)
    fuse(made)
    fast, gradients = learned(made, fused=True, monkeypatch=monkeypatch)
    plain, expected = learned(made, fused=False, monkeypatch=monkeypatch)
    torch.testing.assert_close(fast, plain, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("parallel", ["one_norm", "two_norms"])
def test_parallel_residuals_with_kernels_differ_by_rounding_alone(parallel):
    config = DecoderOnlyConfig(
        vocab_size=30, d_model=WIDTH, num_heads=2, d_ff=48, num_layers=2, activation="relu",
        parallel_residual=parallel, dropout=0.2, attention_dropout=0.0,
    )  # fmt: skip
    model, ids = build_model(config, seed=0).train(), torch.randint(30, (3, 7))

    def results():
        model.zero_grad()
        torch.manual_seed(1)
        logits = model(ids)
        logits.square().sum().backward()
        return fused_in(logits), logits.detach(), [parameter.grad for parameter in model.parameters()]

    fuse(model)
    kernels, fast, _ = results()
    assert "AddDroppedBackward" in kernels
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # kernels draw other numbers than PyTorch
    without_dropout = results()[1:]
    unfuse(model)
    kernels, plain, expected = results()
    assert not kernels
    torch.testing.assert_close(without_dropout, (plain, expected), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(fast, plain)


@pytest.mark.parametrize(
    "name", ["around_feed_forward.norm", "around_feed_forward.dropout", "feed_forward.inner"]
)
def test_a_module_with_a_hook_is_called(name):
    made, heard = decoder_block("post", 0.2), []
    fuse(made)
    x = torch.randn(2, 3, WIDTH, requires_grad=True)
    torch.manual_seed(2)
    before = made(x, x)
    made.get_submodule(name).register_forward_hook(lambda module, given, found: heard.append(found))
    torch.manual_seed(2)
    torch.testing.assert_close(made(x, x), before)
    assert len(heard) == 1


def test_a_global_hook_is_called():
    x, map_ = torch.randn(3, 4, requires_grad=True), nn.Linear(4, 4)
    listening = nn.modules.module.register_module_forward_hook(lambda *given: None)
    try:
        assert not can_be_fused(x, map_)
    finally:
        listening.remove()
    assert can_be_fused(x, map_)


@pytest.mark.parametrize("kind", ["gelu", "gelu_tanh", "quick_gelu", "silu", "swiglu", "geglu", "geglu_tanh"])
@pytest.mark.parametrize("p", [0.0, 0.2])
def test_activations_with_kernels_differ_by_rounding_alone(kind, p, monkeypatch):
    torch.manual_seed(0)
    made, x = feed_forward(kind, WIDTH, 50, dropout=p), torch.randn(2, 3, WIDTH, requires_grad=True)

    def results():
        torch.manual_seed(1)
        made.zero_grad()
        out = made(x)
        gradients = torch.autograd.grad(out.square().sum(), [x, *made.parameters()])
        return fused_in(out), [out.detach(), *gradients]

    fuse(made)
    kernels, fast = results()
    assert kernels == {ACTIVATED}
    monkeypatch.setattr(training, "can_be_fused", lambda *given: False)
    kernels, plain = results()
    assert ACTIVATED not in kernels
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4)


def test_an_activation_without_a_kernel_is_called():
    made, x = FeedForward(WIDTH, 48, F.elu), torch.randn(2, 3, WIDTH, requires_grad=True)
    expected = made(x)
    fuse(made)
    out = made(x)
    assert not fused_in(out)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("frozen", ["inner", "outer"])
def test_frozen_maps_get_no_gradients(frozen):
    torch.manual_seed(3)
    made, x = FeedForward(WIDTH, 48), torch.randn(5, WIDTH, requires_grad=True)
    made.get_submodule(frozen).requires_grad_(False)
    fuse(made)
    made(x).sum().backward()
    learning = {name for name, parameter in made.named_parameters() if parameter.grad is not None}
    assert learning == {name for name, _ in made.named_parameters() if not name.startswith(frozen)}


@pytest.mark.parametrize(
    ("query", "key", "value"),
    [
        ((3, 4, 2, 16), (1, 2, 5, 16), (1, 2, 5, 16)),
        ((1, 4, 2, 16), (3, 2, 5, 16), (3, 2, 5, 16)),
        ((2, 6, 2, 16), (2, 4, 5, 16), (2, 4, 5, 16)),
        ((2, 4, 2, 16), (2, 4, 5, 16), (2, 4, 3, 16)),
    ],
)
def test_attention_of_unlike_shapes_is_that_without_kernels(query, key, value):
    """It broadcasts, or refuses."""
    torch.manual_seed(4)
    query, key, value = (torch.randn(shape, requires_grad=True) for shape in (query, key, value))
    try:
        expected = training_attention.training_attention(query.detach(), key.detach(), value.detach())
    except (RuntimeError, TypeError, ValueError) as refused:
        with pytest.raises(type(refused)):
            training_attention.training_attention(query, key, value)
    else:
        torch.testing.assert_close(training_attention.training_attention(query, key, value), expected)


def test_a_norm_of_another_width_is_refused_as_without_kernels():
    around = PostNorm(lambda: nn.LayerNorm(16), 0.0)
    fuse(around)
    with pytest.raises(RuntimeError):
        around(torch.randn(2, 3, 32, requires_grad=True), lambda y: y * 1.0)


def test_they_are_for_training_in_float32_with_gradients():
    x, map_ = torch.randn(3, 4, requires_grad=True), nn.Linear(4, 4)
    assert can_be_fused(x, map_)
    assert not can_be_fused(x.detach(), map_)
    assert not can_be_fused(x.double(), map_)
    assert not can_be_fused(x.to("meta"), map_)
    assert not can_be_fused(x, map_.eval())
    assert not can_be_fused(x, nn.Linear(4, 4).double())
    with torch.no_grad():
        assert not can_be_fused(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not can_be_fused(x)


def test_transforms_of_functions_take_the_plain_form():
    seen = []

    def loss(x):
        seen.append(fusible.can_be_fused(x))
        return dropout.dropout(x, 0.5).square().sum()

    torch.func.grad(loss)(torch.ones(8, requires_grad=True))
    with torch.autograd.forward_ad.dual_level():
        loss(torch.ones(8, requires_grad=True))
    assert seen == [False, False]
