"""What a model cannot be, or cannot be trained by, is refused before its data are read."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import nn

from regard.errors import ConfigError, RecipeError
from regard.layers.attention import SelfAttention
from regard.layers.scaled_dot_product import attention
from regard.models.build import MODELS
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from regard.models.registered import ATTENTIONS, NORMS
from regard.verbs.shared.settings import load_recipe
from regard.verbs.training_run.model_check import refuse_impossible_model

RECIPES = Path(__file__).parents[3] / "recipes"
RECOMPUTED = ["training.recompute_activations=true"]


@pytest.mark.parametrize("name", ["multi30k-de-en-rnn", "gat-cora"])
def test_activations_of_a_model_without_blocks_cannot_be_recomputed(name):
    with pytest.raises(RecipeError, match=r"recompute_activations = true, but .* has no list of `blocks`"):
        refuse_impossible_model(load_recipe(RECIPES / f"{name}.toml", RECOMPUTED).recipe)


@pytest.mark.parametrize("name", ["reverse", "shakespeare-char-cpu", "conformer-digits", "bert-mlm-small"])
def test_those_of_transformers_can(name):
    refuse_impossible_model(load_recipe(RECIPES / f"{name}.toml", RECOMPUTED).recipe)


@pytest.mark.parametrize("name", ["reverse", "shakespeare-char-cpu", "sst-mlm", "sst2", "ud-pos"])
def test_registered_parts_that_cannot_be_used(name, monkeypatch):
    class Transposed(SelfAttention):
        def attend(self, *given):
            return attention(*given).transpose(1, 2)

    monkeypatch.setitem(ATTENTIONS.added, "transposed", Transposed)
    monkeypatch.setitem(NORMS.added, "zero", lambda config, width: Zero())
    for change, message in (
        ('model.attention="transposed"', "'transposed': attend of Transposed returns"),
        ('model.norm="zero"', "'zero' gives the same output for all states"),
    ):
        with pytest.raises(ConfigError, match=message):
            refuse_impossible_model(load_recipe(RECIPES / f"{name}.toml", [change]).recipe)


class Zero(nn.Module):
    def forward(self, x):
        return x * 0


@pytest.mark.parametrize(
    ("name", "changes"), [("vit-mnist", []), ("reverse", ['model.kind="renamed"']), ("sst2", [])]
)
def test_parts_of_models_of_images_and_of_registered_ones_are_tried(name, changes, monkeypatch):
    """They were tried when all data had been read."""
    monkeypatch.setitem(MODELS.added, "renamed", (Renamed, EncoderDecoder))
    monkeypatch.setitem(NORMS.added, "tanh", lambda config, width, **options: Tanh(**options))
    monkeypatch.setitem(NORMS.added, "zero", lambda config, width: Zero())
    load = partial(load_recipe, RECIPES / f"{name}.toml")
    for norm in ("layer", "tanh"):
        refuse_impossible_model(load([*changes, f'model.norm="{norm}"']).recipe)
    for change, message in (
        (['model.norm="zero"'], "'zero' gives the same output for all states"),
        (['model.norm="tanh"', "model.options.norm.strat=1.0"], "'tanh' fails: TypeError: .*'strat'"),
    ):
        with pytest.raises(ConfigError, match=message):
            refuse_impossible_model(load([*changes, *change]).recipe)


def test_an_error_of_a_registered_model_about_sizes_is_not_judged(monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Small(EncoderDecoderConfig):
        kind: ClassVar[str] = "small"

        def __post_init__(self):
            super().__post_init__()
            if self.src_vocab_size > 100:
                raise ConfigError("a vocabulary of more than 100 tokens")

    monkeypatch.setitem(MODELS.added, "small", (Small, EncoderDecoder))
    refuse_impossible_model(load_recipe(RECIPES / "reverse.toml", ['model.kind="small"']).recipe)


class Renamed(EncoderDecoderConfig):
    kind: ClassVar[str] = "renamed"


class Tanh(nn.Module):
    def __init__(self, start=0.5):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor([start]))

    def forward(self, x):
        return torch.tanh(self.factor * x)
