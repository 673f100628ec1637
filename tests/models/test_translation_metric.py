"""Learned metrics: sizes as published, features as defined, settings that are refused."""

import pytest
import torch

from regard.errors import ConfigError
from regard.models.build import build_model, config_class, count_config_parameters
from regard.models.translation_metric import TranslationMetricConfig

TINY = {
    "vocab_size": 20,
    "d_model": 16,
    "num_heads": 2,
    "d_ff": 32,
    "num_layers": 2,
    "hidden_sizes": (6,),
    "reads": ("source", "reference"),
    "joined": False,
}
XLMR_LARGE = {
    "vocab_size": 250_002,
    "d_model": 1024,
    "num_heads": 16,
    "d_ff": 4096,
    "num_layers": 24,
    "position_offset": 2,
    "num_token_types": 1,
}


def config(**settings) -> TranslationMetricConfig:
    return TranslationMetricConfig.from_dict({**TINY, **settings})


def shaken(**settings):
    model = build_model(config(**settings), seed=0).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model


def test_metrics_on_xlm_roberta_large_have_the_parameters_of_comet():
    """The encoder 558,840,832, a weight for each of 25 layers and a scale, the estimator."""
    comet = {**XLMR_LARGE, "reads": ("source", "reference"), "joined": False}
    estimator = 6 * 1024 * 3072 + 3072 + 3072 * 1024 + 1024 + 1024 + 1
    assert count_config_parameters(TranslationMetricConfig(**comet)) == 558_840_832 + 26 + estimator
    kiwi = {**XLMR_LARGE, "reads": ("source",), "joined": True, "pooling": "cls"}
    estimator = 1024 * 3072 + 3072 + 3072 * 1024 + 1024 + 1024 + 1
    assert count_config_parameters(TranslationMetricConfig(**kiwi)) == 558_840_832 + 26 + estimator


@torch.no_grad()
def test_the_features_are_those_of_comet():
    model = shaken()
    translation, source, reference = torch.randn(3, 2, 16)
    features = torch.cat(
        [
            translation,
            reference,
            translation * reference,
            (translation - reference).abs(),
            translation * source,
            (translation - source).abs(),
        ],
        dim=-1,
    )
    hidden, output = model.estimator.layers[0], model.estimator.output
    expected = torch.tanh(features @ hidden.weight.T + hidden.bias) @ output.weight.T + output.bias
    found = model.estimate(torch.stack([translation, source, reference], dim=1))
    torch.testing.assert_close(found, expected)


@torch.no_grad()
def test_without_references_a_translation_is_compared_with_its_source():
    model = shaken(reads=("source",), score_activation="sigmoid")
    translation, source = torch.randn(2, 2, 16)
    features = torch.cat([translation, source, translation * source, (translation - source).abs()], dim=-1)
    hidden, output = model.estimator.layers[0], model.estimator.output
    expected = torch.tanh(features @ hidden.weight.T + hidden.bias) @ output.weight.T + output.bias
    found = model.estimate(torch.stack([translation, source], dim=1))
    torch.testing.assert_close(found, torch.sigmoid(expected))


@torch.no_grad()
def test_the_score_of_several_joined_inputs_is_their_mean():
    model = shaken(joined=True, pooling="cls")
    ids, lengths = torch.randint(3, 20, (2, 3, 7)), torch.tensor([[7, 5, 2], [3, 7, 7]])
    each = [model(ids[:, [number]], lengths[:, [number]]) for number in range(3)]
    torch.testing.assert_close(model(ids, lengths), torch.stack(each).mean(dim=0))


@pytest.mark.parametrize("layer", [0, 1, 2])
@torch.no_grad()
def test_one_layer_may_be_used_alone(layer):
    model = shaken(layer=layer)
    assert model.mix is None
    ids, lengths = torch.randint(3, 20, (2, 7)), torch.tensor([7, 7])
    mask = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    states = list(model.encoder.states(ids, mask))
    assert len(states) == 3
    assert torch.equal(states[-1], model.encoder(ids, mask))
    torch.testing.assert_close(model.vectors(ids, lengths), states[layer].mean(dim=1))


def test_the_kind_is_known_and_a_text_may_have_two_tokens_fewer_than_there_are_positions():
    assert config_class("translation_metric") is TranslationMetricConfig
    assert config().text_limit == 510
    assert config(positions="rotary").text_limit is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"reads": ()}, "reads"),
        ({"reads": ("reference",)}, "reads"),
        ({"reads": ("source", "document")}, "document"),
        ({"joined": True}, "pooling = 'mean'"),
        ({"layer": 3}, "layer = 3"),
        ({"layer": 1, "mix_norm": True}, "mix_norm"),
        ({"mix": "entmax"}, "entmax"),
        ({"hidden_sizes": ()}, "hidden_sizes"),
        ({"hidden_sizes": (4, 0)}, "hidden_sizes"),
        ({"estimator_activation": "relu"}, "relu"),
        ({"estimator_dropout": 1.0}, "estimator_dropout"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(settings, words):
    with pytest.raises(ConfigError, match=words) as caught:
        config(**settings)
    assert caught.value.hint
