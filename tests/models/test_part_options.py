"""Registered parts have options, which a recipe sets, a sweep varies and a model folder keeps."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.errors import ConfigError
from regard.layers.attention import SelfAttention
from regard.layers.feedforward import FeedForward
from regard.layers.scaled_dot_product import attention
from regard.models.build import build_model, build_uninitialised
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.registered import (
    register_attention,
    register_feed_forward,
    register_norm,
    register_positions,
)
from regard.verbs.shared.settings import load_recipe
from regard.verbs.training_run.model_check import refuse_impossible_model
from tests.models.small_models import SIZES, decoder

MINE = dict.fromkeys(("positions", "attention", "norm", "activation"), "mine")
OPTIONS = {
    "positions": {"period": 3.0},
    "attention": {"temperature": 2.0},
    "norm": {"start": 0.7},
    "activation": {"power": 3},
}
WITHIN_ITSELF = list[object]()
WITHIN_ITSELF.append(WITHIN_ITSELF)


class Norm(nn.Module):
    def __init__(self, config, width, *, start=0.5):
        super().__init__()
        self.factor = nn.Parameter(torch.full((width,), start))

    def forward(self, x):
        return torch.tanh(self.factor * x)


class Attention(SelfAttention):
    def __init__(self, *given, temperature=1.0, **others):
        super().__init__(*given, **others)
        self.temperature = temperature

    def attend(self, query, *others):
        return attention(query / self.temperature, *others)


class Positions(nn.Module):
    def __init__(self, config, bidirectional, period=100.0):
        super().__init__()
        self.period, self.width = period, config.d_model

    def forward(self, start, length):
        return (torch.arange(start, start + length) / self.period).sin()[:, None].expand(-1, self.width)


@pytest.fixture(autouse=True)
def _registered(parts_only_here):
    register_norm("mine")(Norm)
    register_attention("mine")(Attention)
    register_positions("mine", "input")(Positions)

    @register_feed_forward("mine")
    def network(config, power=2):
        return FeedForward(config.d_model, config.d_ff, lambda x: torch.relu(x) ** power)


def config_of(**settings):
    return DecoderOnlyConfig.from_table({**SIZES, "num_layers": 1, **settings}, vocab_size=11)


def test_options_are_arguments_of_the_part():
    model = build_model(config_of(**MINE, options=OPTIONS), seed=0)
    assert model.input.positions.period == 3.0
    assert model.blocks[0].self_attention.temperature == 2.0
    norms = [each for each in model.modules() if isinstance(each, Norm)]
    assert all(torch.equal(each.factor, torch.full((16,), 0.7)) for each in norms)
    assert norms
    assert model.blocks[0].feed_forward.activation(torch.tensor(2.0)) == 8


def test_a_config_file_keeps_options():
    config = config_of(**MINE, options=OPTIONS)
    again = DecoderOnlyConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert hash(again) == hash(config)
    assert build_uninitialised(again).input.positions.period == 3.0


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"norm": {"strat": 1.0}}, "the norm 'mine': .*'strat'", "did you mean 'start'?"),
        ({"attention": {"temprature": 1.0}}, "the self-attention 'mine' fails: .*'temprature'", ""),
        ({"attention": {"dropout": 1.0}}, r"options\.attention\.dropout cannot be set", "leave it out"),
        ({"norms": {"start": 1.0}}, r"options\.norms is of no part", "did you mean 'norm'?"),
        ({"norm": 3}, r"options\.norm = 3 is no table", "by its name"),
        (3, "options = 3 has the wrong type", ""),
        ({"norm": {"start": len}}, r"options\.norm must be numbers.*not JSON", "as a recipe has them"),
        ({"norm": {"start": WITHIN_ITSELF}}, r"options\.norm must be numbers.*Circular", "as a recipe"),
    ],
)
def test_options_that_no_part_takes_are_refused(options, message, hint):
    with pytest.raises(ConfigError, match=message) as error:
        build_model(config_of(**MINE, options=options), seed=0)
    assert hint in error.value.hint


def test_options_of_regards_own_parts_have_no_effect():
    with pytest.raises(ConfigError, match=r"options\.norm has no effect with norm = 'layer'") as error:
        decoder(options={"norm": {"start": 1.0}})
    assert "registered parts" in error.value.hint


def test_a_recipe_sets_options_and_changes_one():
    path = Path(__file__).parents[2] / "recipes/reverse.toml"
    changes = ['model.norm="mine"', "model.options.norm.start=0.25"]
    recipe = load_recipe(path, changes).recipe
    assert recipe.model["options"] == {"norm": {"start": 0.25}}
    refuse_impossible_model(recipe)
    with pytest.raises(ConfigError, match="'strat'"):
        refuse_impossible_model(load_recipe(path, [*changes, "model.options.norm.strat=1"]).recipe)


def test_a_part_without_options_says_so():
    register_norm("plain")(lambda config, width: nn.Tanh())
    with pytest.raises(ConfigError, match="the norm 'plain'") as error:
        decoder(norm="plain", options={"norm": {"start": 1.0}})
    assert error.value.hint == "it has no options"
