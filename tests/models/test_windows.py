"""Windows of all layers or of some: settings that fit together, and the rotary positions of each type."""

import dataclasses

import pytest

from regard.errors import ConfigError
from regard.layers.rotary_scaling import LinearScaling
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig

FULL, SLIDING = "full_attention", "sliding_attention"
SMALL = {"vocab_size": 9, "d_model": 8, "num_heads": 2, "d_ff": 8, "num_layers": 5, "positions": "rotary"}


def config(**table):
    return DecoderOnlyConfig.from_dict({**SMALL, **table})


def test_types_are_repeated_over_the_layers():
    assert config().windows == (None,) * 5
    assert config(window=3).windows == (3,) * 5
    assert config(window=3, layer_types=[SLIDING, SLIDING, FULL]).windows == (3, 3, None, 3, 3)
    assert config(window=3, layer_types=[FULL] * 4 + [SLIDING]).windows == (None, None, None, None, 3)
    assert config(layer_types=[FULL]).windows == (None,) * 5


def test_a_config_with_types_survives_its_dict():
    made = config(window=3, layer_types=[SLIDING, FULL], local_rotary_base=30)
    assert made.layer_types == (SLIDING, FULL)
    assert made.local_rotary_base == 30.0
    assert DecoderOnlyConfig.from_dict(made.to_dict()) == made
    hash(made)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"layer_types": [SLIDING]}, "there is no window"),
        ({"layer_types": [SLIDING, FULL]}, "there is no window"),
        ({"layer_types": [FULL], "window": 3}, "window = 3, but no layer"),
        ({"layer_types": [], "window": 3}, "layer_types has 0 types for 5 layers"),
        ({"layer_types": [FULL] * 6}, "layer_types has 6 types for 5 layers"),
        ({"layer_types": [FULL, "chunked"]}, "layer_types\\[1\\] = 'chunked' is unknown"),
        ({"layer_types": FULL}, "layer_types = 'full_attention' has the wrong type"),
        ({"window": 0}, "window = 0 is too small"),
        ({"window": 3, "local_rotary_base": 1.0}, "local_rotary_base = 1.0 is not above 1"),
        (
            {"local_rotary_base": 9.0},
            "local_rotary_base = 9.0 is the base of rotary positions in layers with",
        ),
        (
            {"window": 3, "local_rotary_base": 9.0, "positions": "alibi"},
            "local_rotary_base = 9.0 is the base",
        ),
        ({"attention_softcap": 0.0}, "attention_softcap = 0.0 is out of range"),
        ({"logit_softcap": -1}, "logit_softcap = -1.0 is out of range"),
        ({"parallel_residual": "two_norms", "norm_position": "post"}, "parallel_residual = 'two_norms', but"),
        ({"parallel_residual": True}, "parallel_residual = True is unknown"),
        ({"qk_norm": "heads"}, "qk_norm = 'heads' is unknown"),
    ],
    ids=str,
)
def test_what_does_not_fit_together_is_refused(table, message):
    with pytest.raises(ConfigError, match=message) as caught:
        config(**table)
    assert caught.value.hint


def test_layers_with_a_window_have_a_rotary_base_of_their_own():
    made = config(
        window=3,
        layer_types=[SLIDING, FULL],
        local_rotary_base=30.0,
        rotary_scaling={"kind": "linear", "factor": 2.0},
    )
    model = build_model(made, seed=1)
    found = [
        (block.self_attention.rotary.base, block.self_attention.rotary.scaling) for block in model.blocks
    ]
    local, usual = (30.0, None), (10000.0, LinearScaling(factor=2.0))
    assert found == [local, usual, local, usual, local]
    same = build_model(dataclasses.replace(made, local_rotary_base=None), seed=1)
    assert len({id(block.self_attention.rotary) for block in same.blocks}) == 1
