"""Decoders without a source: sizes as published, weights as GPT-2 draws them, settings that are refused."""

import pytest
import torch

from regard.errors import ConfigError
from regard.models.build import build_model, config_class, count_parameters
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig


def config(**table) -> DecoderOnlyConfig:
    return DecoderOnlyConfig.from_table(table, vocab_size=65)


def parameters(vocab_size: int, **table) -> int:
    with torch.device("meta"):
        return count_parameters(DecoderOnly(DecoderOnlyConfig.from_table(table, vocab_size=vocab_size)))


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
    ],
)
def test_gpt2_has_the_parameters_of_gpt2(preset, expected):
    assert parameters(50_257, preset=preset) == expected


def test_the_baby_has_the_10_65_million_parameters_of_nanogpt():
    """It does not count the positions."""
    assert parameters(65, preset="baby") - 256 * 384 == 10_646_784


def test_the_kind_is_known():
    assert config_class("decoder_only") is DecoderOnlyConfig


def test_a_config_survives_its_dict():
    for preset in DecoderOnlyConfig.presets:
        made = config(preset=preset, window=5, qk_norm=True)
        assert DecoderOnlyConfig.from_dict(made.to_dict()) == made


def test_sub_layer_outputs_are_initialised_smaller_in_deeper_stacks():
    """GPT-2: N(0, 0.02), and the 2 L last matrices of the sub-layers divided by sqrt(2 L)."""
    model = build_model(config(preset="nano", bias=True), seed=0)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:
            last = name.endswith(("self_attention.output.weight", "outer.weight"))
            expected = 0.02 / 8**0.5 if last else 0.02
            assert parameter.std().item() == pytest.approx(expected, rel=0.05), name


def test_a_tied_head_is_the_embedding():
    tied, untied = (
        build_model(config(preset="nano"), seed=0),
        build_model(config(preset="nano", tied=False), seed=0),
    )
    assert tied.output.weight is tied.input.embedding.weight
    assert untied.output.weight is not untied.input.embedding.weight
    assert count_parameters(untied) - count_parameters(tied) == 65 * 128


def test_a_model_without_bias_has_none():
    assert not [
        name for name, _ in build_model(config(preset="nano"), seed=0).named_parameters() if "bias" in name
    ]


def test_embeddings_are_scaled_only_if_asked():
    ids = torch.tensor([[4, 7]])
    for scaled, factor in ((False, 1.0), (True, 128**0.5)):
        model = build_model(config(preset="nano", positions="none", scaled_embedding=scaled), seed=0)
        expected = factor * model.input.embedding.weight[[4, 7]]
        torch.testing.assert_close(model.input(ids)[0], expected)


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"window": 0}, "window = 0"),
        ({"num_layers": 0}, "num_layers = 0"),
        ({"num_heads": 5}, "d_model \\(768\\) must be divisible"),
        ({"preset": "gpt3"}, "no decoder_only preset 'gpt3'"),
        ({"vocab_size": 3}, "vocab_size = 3 cannot be set in a recipe"),
        ({"layers": 3}, "no model setting 'layers'"),
    ],
)
def test_what_cannot_be_built_is_refused(table, named):
    with pytest.raises(ConfigError, match=named) as caught:
        config(**table)
    assert caught.value.hint
