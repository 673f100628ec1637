"""Registered parts of models are refused where a model could not use them, by name."""

import pytest
import torch
from torch import nn

from regard.errors import ConfigError
from regard.layers.attention import SelfAttention
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.recurrent import RecurrentConfig
from regard.models.registered import (
    ATTENTIONS,
    POSITIONS,
    register_attention,
    register_positions,
    registered_parts,
)


class Mean(nn.Module):
    """It ignores the mask and the cache."""

    def __init__(self, *given, **others):
        super().__init__()

    def forward(self, x, *given, **others):
        return x.mean(dim=1, keepdim=True).expand_as(x)


@pytest.fixture(autouse=True)
def _only_here(monkeypatch):
    for registry in (ATTENTIONS, POSITIONS):
        monkeypatch.setattr(registry, "added", dict(registry.added))


def build(**settings):
    return build_model(
        DecoderOnlyConfig(vocab_size=11, d_model=16, num_heads=4, d_ff=32, num_layers=1, **settings), seed=0
    )


def test_an_attention_that_is_no_self_attention_is_refused():
    with pytest.raises(ConfigError, match="'mean' is not a subclass of SelfAttention") as error:
        register_attention("mean")(Mean)
    assert "inherit from SelfAttention" in (error.value.hint or "")
    assert "mean" not in ATTENTIONS.added
    register_attention("mean")(lambda *given, **others: Mean())
    with pytest.raises(ConfigError, match="'mean' is not a subclass of SelfAttention"):
        build(attention="mean")


def test_rotations_that_are_no_rotary_positions_are_refused():
    with pytest.raises(ConfigError, match="'turned' is for queries_and_keys, but no subclass") as error:
        register_positions("turned", "queries_and_keys")(Mean)
    assert "inherit from RotaryPositions" in (error.value.hint or "")
    register_positions("turned", "queries_and_keys")(lambda config, bidirectional: Mean())
    with pytest.raises(ConfigError, match="'turned' is for queries_and_keys"):
        build(positions="turned")


@pytest.mark.parametrize("where", ["input", "scores"])
def test_positions_that_are_no_module_are_refused(where):
    with pytest.raises(ConfigError, match="'counted' is not a subclass of torch"):
        register_positions("counted", where)(dict)
    register_positions("counted", where)(lambda config, bidirectional: torch.zeros)
    with pytest.raises(ConfigError, match="'counted' is not a subclass of torch"):
        build(positions="counted")


def test_registered_parts_of_a_config_are_named():
    register_positions("mine", "input")(nn.Linear)
    register_attention("own")(SelfAttention)
    sizes = {"vocab_size": 11, "d_model": 16, "num_heads": 4, "d_ff": 32, "num_layers": 1}
    assert registered_parts(DecoderOnlyConfig(**sizes)) == {}
    config = DecoderOnlyConfig(**sizes, positions="mine", attention="own")
    assert registered_parts(config) == {"positions": "mine", "attention": "own"}
    assert registered_parts(RecurrentConfig(src_vocab_size=9, tgt_vocab_size=9, d_model=8)) == {}
