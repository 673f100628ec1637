"""What a model cannot be, or cannot be trained by, is refused before its data are read."""

from pathlib import Path

import pytest
from torch import nn

from regard.errors import ConfigError, RecipeError
from regard.layers.attention import SelfAttention
from regard.layers.scaled_dot_product import attention
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


@pytest.mark.parametrize("name", ["reverse", "shakespeare-char-cpu"])
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
