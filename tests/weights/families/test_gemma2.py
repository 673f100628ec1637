"""Gemma 2 and the text models of Gemma 3."""

import dataclasses

import pytest
import torch

from regard.errors import FolderError
from regard.layers.rotary_scaling import LinearScaling
from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.families.family import canonical
from regard.weights.pretrained import FAMILIES, to_huggingface
from tests.weights.families.conversion import (
    converted,
    outputs,
    random_model,
    refused,
    shapes,
    through_folder,
)

FULL, SLIDING = "full_attention", "sliding_attention"
TABLE = {
    "vocab_size": 9,
    "hidden_size": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 6,
    "num_hidden_layers": 3,
    "intermediate_size": 5,
    "max_position_embeddings": 40,
    "query_pre_attn_scalar": 16,
    "sliding_window": 3,
}
CONFIG = DecoderOnlyConfig(
    vocab_size=9,
    d_model=4,
    num_heads=2,
    num_kv_heads=1,
    head_dim=6,
    num_layers=3,
    d_ff=5,
    norm="rms",
    norm_eps=1e-6,
    norm_position="sandwich",
    activation="geglu_tanh",
    attention_scale=0.25,
    attention_softcap=50.0,
    logit_softcap=30.0,
    bias=False,
    positions="rotary",
    max_positions=40,
    trained_length=40,
    window=3,
    layer_types=(SLIDING, FULL),
    dropout=0.0,
    attention_dropout=0.0,
    scaled_embedding=True,
    tied=True,
)
THIRD = dataclasses.replace(
    CONFIG,
    attention_softcap=None,
    logit_softcap=None,
    qk_norm=True,
    rotary_base=1e6,
    local_rotary_base=1e4,
    layer_types=(SLIDING, FULL),
)
TYPES = {"layer_types": [SLIDING, FULL, SLIDING]}


def test_each_setting_of_gemma2_is_one_of_ours():
    assert converted("gemma2", TABLE).config == CONFIG
    few = {name: TABLE[name] for name in TABLE if name not in ("head_dim", "query_pre_attn_scalar")}
    found = converted("gemma2", {**few, "sliding_window_size": 3, "cache_implementation": "hybrid"}).config
    assert found == dataclasses.replace(CONFIG, head_dim=256, attention_scale=1 / 16)
    assert converted("gemma2", {**TABLE, "query_pre_attn_scalar": 0.5}).config.attention_scale == 0.5**-0.5
    usual = dataclasses.replace(CONFIG, attention_scale=None)
    assert FAMILIES["gemma2"].write(usual, ())["query_pre_attn_scalar"] == CONFIG.head_dim
    no_caps = {"attn_logit_softcapping": None, "final_logit_softcapping": None}
    expected = dataclasses.replace(CONFIG, attention_softcap=None, logit_softcap=None)
    assert converted("gemma2", {**TABLE, **no_caps}).config == expected
    full = {"layer_types": [FULL] * 3, "sliding_window": None}
    assert converted("gemma2", {**TABLE, **full}).config == dataclasses.replace(
        CONFIG, window=None, layer_types=None
    )


def test_each_setting_of_gemma3_is_one_of_ours():
    assert converted("gemma3_text", {**TABLE, **TYPES}).config == THIRD
    assert converted("gemma3_text", {**TABLE, "sliding_window_pattern": 2}).config == THIRD
    local = {
        "rope_theta": 500.0,
        "rope_local_base_freq": 20,
        "rope_scaling": {"rope_type": "linear", "factor": 8},
    }
    assert converted("gemma3_text", {**TABLE, **TYPES, **local}).config == dataclasses.replace(
        THIRD, rotary_base=500.0, local_rotary_base=20.0, rotary_scaling=LinearScaling(factor=8.0)
    )
    newer = {FULL: {"rope_theta": 500.0, "rope_type": "default"}, SLIDING: {"rope_theta": 500.0}}
    assert converted("gemma3_text", {**TABLE, **TYPES, "rope_parameters": newer}).config == (
        dataclasses.replace(THIRD, rotary_base=500.0, local_rotary_base=None)
    )


def test_layers_of_one_type_have_one_rotary_base():
    windows = converted("gemma3_text", TABLE).config  # the first five of six layers have windows
    assert windows == dataclasses.replace(THIRD, layer_types=None, rotary_base=1e4, local_rotary_base=None)
    none = converted("gemma3_text", {**TABLE, "layer_types": [FULL] * 3}).config
    assert converted("gemma3_text", {**TABLE, "sliding_window_pattern": 1}).config == none
    assert none == dataclasses.replace(THIRD, window=None, layer_types=None, local_rotary_base=None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention = True is not supported"),
        ({"sliding_window": None}, "layers have sliding_attention, but sliding_window is null"),
        ({"layer_types": [FULL] * 2}, "layer_types has 2 types for 3 layers"),
        ({"layer_types": ["chunked_attention"] * 3}, "the type 'chunked_attention' of layer_types"),
        ({"query_pre_attn_scalar": 0}, "query_pre_attn_scalar = 0.0 is not above 0"),
        ({"hidden_act": "silu"}, "hidden_act = 'silu' differs from hidden_activation"),
        ({"hidden_activation": "relu"}, "hidden_activation = 'relu' is not supported"),
        ({"sliding_window_size": 4}, "sliding_window_size = 4 is not supported"),
        ({"mlp_bias": True}, "mlp_bias = True is not supported"),
        ({"vision_config": {}}, "'vision_config' is unknown"),
    ],
    ids=str,
)
@pytest.mark.parametrize("family", ["gemma2", "gemma3_text"])
def test_what_would_change_the_output_is_refused(family, settings, message):
    refused(family, TABLE | settings, message)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping = 50.0 is not supported"),
        ({"_sliding_window_pattern": 2}, "_sliding_window_pattern = 2 is not supported"),
        ({"sliding_window_pattern": 0}, "sliding_window_pattern = 0 is below 1"),
        ({"rope_parameters": {"rope_theta": 9.0}}, "'rope_theta' of rope_parameters is not the table"),
        ({"rope_parameters": {FULL: 3}}, "'full_attention' of rope_parameters is not the table"),
        (
            {"rope_parameters": {SLIDING: {"rope_type": "linear", "factor": 2.0}}},
            "rope_parameters of sliding_attention are scaled",
        ),
        (
            {"rope_parameters": {FULL: {}}, "rope_scaling": {"type": "linear", "factor": 2.0}},
            "rope_parameters and rope_scaling are both set",
        ),
        ({"rope_parameters": {FULL: {"mscale": 2.0}}}, "full_attention: mscale = 2.0 of rotary positions"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "type 'longrope' are not supported"),
        (
            {"rope_scaling": {"type": "linear", "factor": 8.0}},
            "type = 'linear' of rope_scaling is not supported",
        ),
    ],
    ids=str,
)
def test_what_would_change_the_output_of_gemma3_is_refused(settings, message):
    refused("gemma3_text", TABLE | settings, message)


def test_a_layer_has_norms_on_both_sides_whose_gains_are_less_by_one_in_the_file():
    loaded = random_model(CONFIG)
    written = to_huggingface(loaded, "gemma2").files["model.safetensors"]
    block, layer = loaded.model.blocks[1], "model.layers.1"
    for ours, name in (
        (block.around_self_attention.norm_before, "input_layernorm"),
        (block.around_self_attention.norm_after, "post_attention_layernorm"),
        (block.around_feed_forward.norm_before, "pre_feedforward_layernorm"),
        (block.around_feed_forward.norm_after, "post_feedforward_layernorm"),
    ):
        assert torch.equal(written[f"{layer}.{name}.weight"], ours.weight - 1)
    assert "model.layers.0.self_attn.q_norm.weight" not in written
    of_third = shapes("gemma3_text", dataclasses.replace(THIRD, norm="rms"))
    assert of_third["model.layers.0.self_attn.q_norm.weight"] == (6,)


@pytest.mark.parametrize(
    ("family", "config"),
    [
        ("gemma2", CONFIG),
        ("gemma2", dataclasses.replace(CONFIG, tied=False, attention_bias="all", attention_softcap=None)),
        ("gemma2", dataclasses.replace(CONFIG, window=None, layer_types=None, logit_softcap=None)),
        ("gemma2", dataclasses.replace(CONFIG, layer_types=None)),
        ("gemma2", dataclasses.replace(CONFIG, rotary_scaling=LinearScaling(factor=2.0))),
        ("gemma3_text", THIRD),
        ("gemma3_text", dataclasses.replace(THIRD, layer_types=(FULL, SLIDING, SLIDING), logit_softcap=4.0)),
        ("gemma3_text", dataclasses.replace(THIRD, layer_types=None, local_rotary_base=None)),
        ("gemma3_text", dataclasses.replace(THIRD, rotary_scaling=LinearScaling(factor=2.0))),
        ("gemma3_text", dataclasses.replace(THIRD, local_rotary_base=None)),
    ],
)
def test_a_model_comes_back_from_a_folder(family, config, tmp_path):
    loaded = random_model(config)
    again = through_folder(loaded, family, tmp_path).loaded
    assert canonical(again.config) == canonical(config)
    torch.testing.assert_close(outputs(again), outputs(loaded), rtol=1e-5, atol=1e-5)
    assert to_huggingface(loaded).family == family  # the first that fits


@pytest.mark.parametrize(
    ("family", "settings", "message"),
    [
        ("gemma2", {"attention_scale": 0.3}, "attention_scale = 0.3, but a gemma2 model has 0.301"),
        ("gemma2", {"local_rotary_base": 7.0}, "local_rotary_base = 7.0, but a gemma2 model has None"),
        ("gemma2", {"qk_norm": True}, "qk_norm = True, but a gemma2 model has False"),
        ("gemma3_text", {"qk_norm": True}, "gemma3_text: attn_logit_softcapping = 50.0 is not supported"),
        ("gemma", {"attention_scale": None}, "norm_position = 'sandwich', but a gemma model has 'pre'"),
        ("qwen3", {"attention_scale": None}, "'sandwich', but a qwen3 model has 'pre'"),
    ],
)
def test_other_models_are_none_of_these_families(family, settings, message):
    with pytest.raises(FolderError, match=message):
        to_huggingface(random_model(dataclasses.replace(CONFIG, **settings)), family)


def test_a_window_is_written_in_any_case():
    written = FAMILIES["gemma2"].write(dataclasses.replace(CONFIG, window=None, layer_types=None), ())
    assert written["sliding_window"] == 4096  # transformers has no model without one
    assert written["layer_types"] == [FULL] * 3
