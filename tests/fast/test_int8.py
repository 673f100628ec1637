"""Products in int8: near those in float32, equal to their plain twin, and each row for itself."""

import pickle

import pytest
import torch
from torch import nn

from regard.fast.int8 import Int8Linear, can_int8, input_steps, quantise, to_int8
from regard.fast.native import kernels
from regard.layers.stacked import StackedLinear
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig

pytestmark = pytest.mark.skipif(not can_int8(), reason="this PyTorch has no int8 products")
SHAPES = [(1, 16, 16), (5, 64, 48), (32, 256, 1000), (9, 1024, 64)]


def case(rows, features, outputs, *, bias=True):
    torch.manual_seed(1)
    return nn.Linear(features, outputs, bias=bias), torch.randn(rows, features)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_its_plain_twin(shape, bias):
    linear, x = case(*shape, bias=bias)
    int8 = Int8Linear(linear)
    torch.testing.assert_close(int8(x), int8.plain(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_close_to_the_float_layer(shape):
    linear, x = case(*shape)
    exact = linear(x)
    assert (Int8Linear(linear)(x) - exact).abs().max() < 0.03 * exact.abs().max()


def test_without_kernels_onednn_multiplies(monkeypatch):
    """Without VNNI its inputs have 7 bits. The layout is chosen at the first call, and kept."""
    monkeypatch.setattr(kernels, "has_int8", lambda: False)
    linear, x = case(9, 64, 48)
    int8 = Int8Linear(linear)
    found = int8(x)
    torch.testing.assert_close(found, int8.plain(x), rtol=1e-5, atol=1e-5)
    monkeypatch.undo()
    assert torch.equal(int8(x), found)
    torch.testing.assert_close(found, int8.plain(x), rtol=1e-5, atol=1e-5)


def test_inputs_and_weights_of_another_type_are_converted():
    linear, x = case(3, 16, 8)
    expected = Int8Linear(linear)(x)
    assert torch.equal(Int8Linear(linear.double())(x.double()), expected)


def test_a_row_is_the_same_to_the_bit_beside_any_others():
    linear, x = case(32, 64, 100)
    x[3] *= 1000
    int8 = Int8Linear(linear)
    together = int8(x)
    for row in range(len(x)):
        assert torch.equal(int8(x[row : row + 1])[0], together[row])
    assert torch.equal(int8(x[:, None])[:, 0], together)


def test_inputs_use_all_steps_and_nothing_overflows():
    linear, _ = case(1, 8, 4)
    with torch.no_grad():
        linear.weight.fill_(1.0)
    int8 = Int8Linear(linear)
    x = torch.tensor([[5.0, -5.0, 0.0, 2.5, 1e-3, 0.0, 0.0, 0.0]])
    steps, scale = int8.levels(x)
    assert steps[0, :3].tolist() == [2 * input_steps() + 1, 1, input_steps() + 1]
    torch.testing.assert_close(scale, torch.tensor([[5.0 / input_steps()]]))
    large = torch.full((1, 1024), 3.0)
    with torch.no_grad():
        wide = nn.Linear(1024, 3, bias=False)
        wide.weight.fill_(2.0)
    torch.testing.assert_close(Int8Linear(wide)(large), torch.full((1, 3), 6144.0))


def test_another_process_gets_it_too():
    linear, x = case(3, 16, 8)
    int8 = Int8Linear(linear)
    expected = int8(x)
    assert torch.equal(pickle.loads(pickle.dumps(int8))(x), expected)


def test_zeros_stay_zeros():
    linear, _ = case(1, 8, 4, bias=False)
    assert torch.equal(Int8Linear(linear)(torch.zeros(2, 8)), torch.zeros(2, 4))
    with torch.no_grad():
        linear.weight.zero_()
    weight, scale = quantise(linear.weight)
    assert not weight.any()
    assert scale.isfinite().all()


def test_a_model_keeps_its_shape_and_its_parts():
    config = EncoderDecoderConfig.from_table(
        {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_encoder_layers": 1, "num_decoder_layers": 1},
        src_vocab_size=50,
        tgt_vocab_size=50,
    )
    model = build_model(config, 1).eval()
    src, lengths, tgt = torch.arange(4, 14).view(2, 5), torch.tensor([5, 3]), torch.arange(4, 12).view(2, 4)
    with torch.no_grad():
        exact = model(src, lengths, tgt)
        assert to_int8(model) == 0, "none is so large that it pays"
        assert to_int8(model, least=0) > 0
        near = model(src, lengths, tgt)
    assert not any(isinstance(module, nn.Linear) for module in model.modules())
    assert not torch.equal(near, exact)
    assert (near - exact).abs().max() < 0.05 * exact.abs().max()


def test_stacked_maps_keep_their_widths():
    assert Int8Linear(StackedLinear(8, (8, 4, 4))).widths == (8, 4, 4)
