"""Products of bfloat16: close to float32, in linear layers in training alone, and resumed to the bit."""

import json

import pytest
import torch
from torch import nn

from regard.errors import Interrupted, RecipeError
from regard.fast.bfloat16_products import BFloat16Linear, LinearProduct, bfloat16_products
from regard.fast.training import fused
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training import products
from regard.training.objective import CrossEntropy
from regard.training.products import choose_precision, has_bfloat16, matmul_precision
from regard.verbs.train import train
from regard.verbs.training_run.product_choice import PRODUCTS
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from tests.laws.test_family import pairs

CPU = torch.device("cpu")
narrow = pytest.mark.skipif(not has_bfloat16(), reason="this processor has no instructions for bfloat16")
ROUNDING = 2**-8  # the largest relative error of a bfloat16 number


def relative(found, exact):
    return float(((found - exact).norm() / exact.norm()).detach())


@pytest.mark.parametrize("bias", [True, False])
def test_a_product_and_its_gradients_have_the_error_of_bfloat16(bias):
    torch.manual_seed(0)
    layer = nn.Linear(96, 160, bias)
    x = torch.randn(4, 11, 96, requires_grad=True)
    above = torch.randn(4, 11, 160)
    wanted = [x, *layer.parameters()]
    exact = layer(x)
    found = LinearProduct.apply(x, layer.weight, layer.bias)
    assert found.dtype == torch.float32
    assert 0 < relative(found, exact) < ROUNDING
    gradients = torch.autograd.grad((exact * above).sum(), wanted)
    ours = torch.autograd.grad((found * above).sum(), wanted)
    for one, two in zip(ours, gradients, strict=True):
        assert one.dtype == torch.float32
        assert relative(one, two) < ROUNDING
    if bias:
        torch.testing.assert_close(ours[2], gradients[2])  # a sum of float32


def model():
    sizes = {"d_model": 32, "num_heads": 4, "d_ff": 64, "num_encoder_layers": 2, "num_decoder_layers": 2}
    return build_model(
        EncoderDecoderConfig(src_vocab_size=30, tgt_vocab_size=30, dropout=0.0, **sizes), seed=0
    ).train()


def test_linear_layers_are_replaced_within_the_context_and_the_output_is_not():
    plain, types = model(), []
    with bfloat16_products(), fused(plain):
        types = [type(plain.encoder.blocks[0].feed_forward.inner), type(plain.output)]
        narrow_loss = CrossEntropy(smoothing=0.1)(plain, pairs()).total
        assert plain.eval().encoder.blocks[0].feed_forward.inner(torch.ones(1, 32)).dtype == torch.float32
    assert types == [BFloat16Linear, nn.Linear]
    assert type(plain.encoder.blocks[0].feed_forward.inner) is nn.Linear
    with fused(plain.train()):
        assert type(plain.encoder.blocks[0].feed_forward.inner) is nn.Linear
        exact = CrossEntropy(smoothing=0.1)(plain, pairs()).total
    assert 0 < abs(float(narrow_loss.detach() - exact.detach())) < 0.02 * float(exact.detach())


def test_the_gradients_of_a_model_differ_by_a_few_hundredths():
    found = []
    for context in (torch.no_grad, bfloat16_products):
        current = model()
        with context(), torch.enable_grad(), fused(current):
            CrossEntropy(smoothing=0.1)(current, pairs()).total.backward()
        found.append(torch.cat([p.grad.flatten() for p in current.parameters()]))
    assert 0 < relative(found[1], found[0]) < 0.05


def test_a_layer_in_evaluation_has_float32_products():
    layer, x = nn.Linear(64, 64).eval(), torch.randn(5, 64)
    exact = layer(x)
    layer.__class__ = BFloat16Linear
    assert torch.equal(layer(x), exact)


@narrow
def test_it_is_chosen_by_name_alone():
    assert choose_precision("bfloat16", 256, CPU) == "bfloat16"
    assert choose_precision("auto", 256, CPU) != "bfloat16"


def test_a_processor_without_it_and_a_gpu_refuse(monkeypatch):
    with pytest.raises(RecipeError, match="is for a CPU, not for cuda"):
        choose_precision("bfloat16", 256, torch.device("cuda"))
    monkeypatch.setattr(products, "has_bfloat16", lambda: False)
    with pytest.raises(RecipeError, match="no instructions for bfloat16") as caught:
        choose_precision("bfloat16", 256, CPU)
    assert "AVX512-BF16 or AMX" in caught.value.hint


@narrow
def test_the_setting_of_before_comes_back():
    before = torch.get_float32_matmul_precision()
    with matmul_precision("bfloat16"):
        assert torch.get_float32_matmul_precision() == "medium"
    assert torch.get_float32_matmul_precision() == before


SETS = [
    "data.train.size=200",
    "data.test.size=20",
    "data.valid.size=20",
    "training.max_steps=6",
    "training.validate_every=3",
    "training.save_every=2",
    'training.products="bfloat16"',
]


@narrow
def test_a_run_is_resumed_to_the_bit_and_refused_without_the_instructions(tmp_path, monkeypatch):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    train("reverse", out=whole, overrides=SETS, threads=1, quiet=True)
    assert json.loads((whole / PRODUCTS).read_text()) == {"float32_matmul_precision": "bfloat16"}
    train("reverse", out=tmp_path / "exact", overrides=SETS[:-1], threads=1, quiet=True)

    def interrupt(record):
        if record["kind"] == "validation":
            raise Interrupted(15, "stopped", "")

    with pytest.raises(Interrupted):
        train("reverse", out=stopped, overrides=SETS, threads=1, quiet=True, on_report=interrupt)
    assert RunFolder(stopped).latest().step == 2
    with monkeypatch.context() as without:
        without.setattr(products, "has_bfloat16", lambda: False)
        with pytest.raises(RecipeError, match="no instructions"):
            train("reverse", out=stopped, overrides=SETS, threads=1, quiet=True)
    train("reverse", out=stopped, overrides=SETS, threads=1, quiet=True)
    digests = [checkpoint_digest(RunFolder(path).latest()) for path in (whole, stopped, tmp_path / "exact")]
    assert digests[0] == digests[1] != digests[2]
