import dataclasses
import json
import math

import pytest
import torch

from regard.errors import FolderError
from regard.layers.rotary_scaling import DynamicScaling, LinearScaling, Llama3Scaling, YarnScaling
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
    without,
)

NEEDED = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "intermediate_size": 7,
}
TABLE = {
    **NEEDED,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "rms_norm_eps": 1e-4,
    "hidden_act": "gelu",
    "max_position_embeddings": 40,
    "rope_theta": 300.0,
    "attention_dropout": 0.2,
    "tie_word_embeddings": True,
}
CONFIG = DecoderOnlyConfig(
    vocab_size=20,
    d_model=8,
    num_heads=4,
    num_kv_heads=2,
    head_dim=6,
    num_layers=3,
    d_ff=7,
    norm="rms",
    norm_eps=1e-4,
    activation="geglu",
    bias=False,
    positions="rotary",
    max_positions=40,
    trained_length=40,
    rotary_base=300.0,
    dropout=0.0,
    attention_dropout=0.2,
    tied=True,
)
DEFAULT = dataclasses.replace(
    CONFIG,
    num_kv_heads=None,
    head_dim=None,
    norm_eps=1e-6,
    activation="swiglu",
    max_positions=2048,
    trained_length=2048,
    rotary_base=10000.0,
    attention_dropout=0.0,
    tied=False,
)
SMALL = dataclasses.replace(
    CONFIG, d_model=4, num_heads=2, num_kv_heads=1, head_dim=4, num_layers=1, vocab_size=9, tied=False
)


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("llama", {}),
        ("mistral", {"window": 4096}),
        ("qwen2", {"attention_bias": "inputs"}),
        ("qwen3", {"qk_norm": True}),
    ],
)
def test_each_setting_is_one_of_ours(family, settings):
    assert converted(family, TABLE).config == dataclasses.replace(CONFIG, **settings)


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("mistral", {"num_kv_heads": 8, "max_positions": 131072, "trained_length": 131072, "window": 4096}),
        ("qwen2", {"num_kv_heads": 32, "attention_bias": "inputs"}),
        ("qwen3", {"num_kv_heads": 32, "head_dim": 128, "qk_norm": True}),
    ],
)
def test_a_missing_setting_is_the_default_of_its_family(family, settings):
    lengths = {"max_positions": 32768, "trained_length": 32768}
    heads = {"num_attention_heads": 32, "hidden_size": 64}
    found = converted(family, {**NEEDED, **heads}).config
    assert found == dataclasses.replace(DEFAULT, **{"num_heads": 32, "d_model": 64, **lengths, **settings})


def test_a_setting_that_is_missing_is_the_default_of_transformers():
    assert converted("llama", NEEDED).config == DEFAULT


@pytest.mark.parametrize("name", NEEDED)
def test_a_size_has_no_default(name):
    refused("llama", without(TABLE, name), f"config.json: '{name}' is missing")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attention_bias": 1}, "attention_bias = 1 is not of type bool"),
        ({"sliding_window": 5}, "sliding_window = 5 is not supported"),
        ({"rope_interleaved": True}, "rope_interleaved = True is not supported"),
        ({"original_max_position_embeddings": 8}, "'original_max_position_embeddings' is unknown"),
        ({"layer_types": ["full_attention"] * 2}, "layer_types has 2 types for 3 layers"),
        (
            {"layer_types": ["sliding_attention"] * 3},
            "the type 'sliding_attention' of layer_types does not fit",
        ),
        (
            {"layer_types": ["chunked_attention"] * 3},
            "the type 'chunked_attention' of layer_types is not supported",
        ),
        ({"use_sliding_window": True}, "use_sliding_window = True is not supported"),
        (
            {"layer_types": ["full_attention", "full_attention", "sliding_attention"]},
            "the type 'sliding_attention' of layer_types does not fit",
        ),
        ({"hidden_act": "relu"}, "hidden_act = 'relu' is not supported"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5 of rotary positions is not"),
        ({"rope_scaling": {"type": "longrope", "factor": 2.0}}, "type 'longrope' are not supported"),
        ({"rope_scaling": {"type": ["yarn"]}}, "type \\['yarn'\\] are not supported"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "'factor' of rotary positions is missing"),
        (
            {"rope_parameters": {"rope_type": "linear", "factor": "2"}},
            "rope_scaling.factor = '2' has the wrong",
        ),
        ({"rope_parameters": {"rope_type": "linear", "factor": 0.5}}, "factor = 0.5 is below 1"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "beta_fast": 3}}, "beta_fast = 3 of rotary"),
        (
            {"rope_scaling": {"type": "llama3", "factor": 2.0, "low_freq_factor": 1.0}},
            "'high_freq_factor' of rotary positions is missing",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "default"}},
            "rope_parameters and rope_scaling differ",
        ),
        ({"rope_parameters": {"factor": 2.0}}, "factor = 2.0 of rotary positions is not supported"),
        ({"rope_scaling": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor = 0.5 of rotary"),
        ({"rope_scaling": {"partial_rotary_factor": "1"}}, "partial_rotary_factor = '1' is not a number"),
        ({"rope_parameters": {"rope_theta": "300"}}, "rope_theta = '300' is not a number"),
        ({"rope_parameters": {"rope_theta": 10**400}}, "rope_theta is an integer of 1,329 bits"),
    ],
    ids=str,
)
def test_what_would_change_the_output_is_refused(settings, message):
    refused("llama", TABLE | settings, message)


@pytest.mark.parametrize(
    "settings",
    [
        {"attention_bias": False, "mlp_bias": None, "use_sliding_window": False},
        {"pretraining_tp": 2, "max_window_layers": 7, "is_decoder": True, "sliding_window": None},
        {"is_llama_config": True, "rope_interleaved": False, "transformers.js_config": {"dtype": "q4"}},
        {"layer_types": ["full_attention"] * 3},
        {"partial_rotary_factor": 1.0, "rope_parameters": {"partial_rotary_factor": 1.0}},
        {"rope_scaling": {"type": "default"}, "rope_parameters": {"rope_type": "default"}},
    ],
    ids=str,
)
def test_what_changes_no_output_is_accepted(settings):
    assert converted("llama", TABLE | settings).config == CONFIG


def test_the_base_of_the_angles_is_in_one_of_three_places():
    table = without(TABLE, "rope_theta")
    for settings, base in (
        ({"rope_theta": 500}, 500.0),
        ({"rope_scaling": {"rope_theta": 400}, "rope_theta": 500.0}, 400.0),
        ({"rope_parameters": {"rope_theta": 300.5}, "rope_theta": 400.0}, 300.5),
        ({"rope_parameters": {"rope_theta": 7.0}, "rope_scaling": {"rope_theta": 7, "type": "default"}}, 7.0),
    ):
        found = converted("llama", table | settings).config
        assert isinstance(found, DecoderOnlyConfig)
        assert found.rotary_base == base
        assert type(found.rotary_base) is float


ORIGINAL = {"original_max_position_embeddings": 16}


@pytest.mark.parametrize(
    ("settings", "scaling"),
    [
        ({"type": "linear", "factor": 2}, LinearScaling(factor=2.0)),
        ({"type": "dynamic", "factor": 2.0}, DynamicScaling(factor=2.0, original_length=40)),
        (
            {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, **ORIGINAL},
            Llama3Scaling(factor=8.0, original_length=16),
        ),
        ({"type": "yarn", "factor": 4.0}, YarnScaling(factor=4.0, original_length=40)),
        (
            {"rope_type": "yarn", "factor": 4.0, "beta_fast": 0, "beta_slow": None, **ORIGINAL},
            YarnScaling(factor=4.0, original_length=16),
        ),
        (
            {"rope_type": "yarn", "factor": 4.0, "beta_fast": 9, "truncate": False, "mscale": 1.0},
            YarnScaling(factor=4.0, original_length=40, beta_fast=9.0, truncate=False),
        ),
        (
            {"rope_type": "yarn", "factor": math.e, "mscale": 2.0, "mscale_all_dim": 1.0},
            YarnScaling(factor=math.e, original_length=40, attention_factor=1.2 / 1.1),
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", ["rope_parameters", "rope_scaling"])
def test_a_scaling_of_rotary_positions_is_one_of_ours(settings, scaling, place):
    found = converted("llama", {**TABLE, place: settings})
    assert found.config == dataclasses.replace(CONFIG, rotary_scaling=scaling)
    written = FAMILIES["llama"].write(found.config, ())
    assert canonical(converted("llama", written).config) == canonical(found.config)


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_windows_of_qwen_are_of_some_layers_of_all_or_of_none(family):
    def windows(**settings):
        found = converted(family, {**TABLE, **settings}).config
        assert isinstance(found, DecoderOnlyConfig)
        written = FAMILIES[family].write(found, ())
        assert canonical(converted(family, written).config) == canonical(found)
        assert written["use_sliding_window"] is any(found.windows), "for a model of any number of layers"
        return found.windows

    used = {"use_sliding_window": True, "sliding_window": 5}
    none, full, sliding = (None,) * 3, "full_attention", "sliding_attention"
    assert windows(sliding_window=5) == none
    assert windows(use_sliding_window=True, max_window_layers=0) == (4096,) * 3
    assert windows(**used) == none  # the first 28 layers have none
    assert windows(**used, num_hidden_layers=30) == (*(None,) * 28, 5, 5)
    assert windows(**used, max_window_layers=3) == none
    assert windows(**used, max_window_layers=0) == (5,) * 3
    assert windows(**used, max_window_layers=1) == (None, 5, 5)
    assert windows(**used, max_window_layers=0, layer_types=[full] * 3) == none
    assert windows(**used, layer_types=[sliding, full, sliding]) == (5, None, 5)
    assert windows(**{**used, "sliding_window": None}, max_window_layers=0) == none
    refused(family, {**TABLE, "layer_types": [sliding] * 3}, "sliding_window is null")


@pytest.mark.parametrize(
    ("family", "name", "value"),
    [
        ("llama", "rope_interleaved", False),
        ("llama", "use_sliding_window", False),
        ("mistral", "attention_bias", False),
        ("mistral", "mlp_bias", False),
        ("qwen2", "attention_bias", True),
        ("qwen2", "mlp_bias", False),
        ("qwen2", "use_mrope", False),
        ("qwen3", "mlp_bias", False),
        ("qwen3", "use_mrope", False),
    ],
)
def test_a_setting_with_one_allowed_value_may_have_it_and_no_other(family, name, value):
    usual = converted(family, TABLE)
    assert converted(family, {**TABLE, name: value}) == converted(family, {**TABLE, name: None}) == usual
    refused(family, {**TABLE, name: not value}, f"{name} = {not value} is not supported", f"only {value} is")


def test_windows_of_mistral_are_of_all_layers():
    def window(**settings):
        return converted("mistral", {**TABLE, **settings}).config.window

    assert window() == 4096
    assert window(sliding_window=None) is None
    assert window(sliding_window=5, layer_types=["sliding_attention"] * 3) == 5
    types = {"layer_types": ["full_attention"] * 3}
    assert window(sliding_window=None, **types) is None
    refused("mistral", {**TABLE, **types}, "the type 'full_attention' of layer_types does not fit")


def test_special_tokens_are_those_of_the_config():
    found = converted("llama", {**TABLE, "bos_token_id": 3, "eos_token_id": [4, 5], "pad_token_id": 6})
    assert (found.start_id, found.eos_id, found.pad_id) == (3, 4, 6)
    none = converted("llama", TABLE)
    assert (none.start_id, none.eos_id, none.pad_id) == (None, None, None)


def test_texts_of_llama_begin_with_bos_and_those_of_qwen3_do_not():
    assert converted("llama", TABLE).generation == {}
    assert converted("qwen3", TABLE).generation == {"begin": False, "may_end": True}


def test_what_is_written_describes_the_same_model():
    plain = dataclasses.replace(CONFIG, attention_dropout=0.0)
    assert converted("llama", FAMILIES["llama"].write(plain, ())).config == plain
    bare = dataclasses.replace(plain, num_kv_heads=None, head_dim=None, norm_eps=None, trained_length=None)
    written = FAMILIES["llama"].write(dataclasses.replace(bare, activation="swiglu"), ())
    filled = {"num_kv_heads": 4, "head_dim": 2, "norm_eps": 1e-6, "activation": "swiglu"}
    assert converted("llama", written).config == dataclasses.replace(plain, **filled)
    assert written["max_position_embeddings"] == 40
    longer = FAMILIES["llama"].write(dataclasses.replace(plain, max_positions=90), ())
    assert longer["max_position_embeddings"] == 40  # the length of training


def test_the_file_has_the_tensors_of_transformers():
    layer = "model.layers.0"
    found = shapes("llama", SMALL)
    assert found == {
        "model.embed_tokens.weight": (9, 4),
        "model.norm.weight": (4,),
        "lm_head.weight": (9, 4),
        f"{layer}.input_layernorm.weight": (4,),
        f"{layer}.post_attention_layernorm.weight": (4,),
        f"{layer}.self_attn.q_proj.weight": (8, 4),
        f"{layer}.self_attn.k_proj.weight": (4, 4),
        f"{layer}.self_attn.v_proj.weight": (4, 4),
        f"{layer}.self_attn.o_proj.weight": (4, 8),
        f"{layer}.mlp.gate_proj.weight": (7, 4),
        f"{layer}.mlp.up_proj.weight": (7, 4),
        f"{layer}.mlp.down_proj.weight": (4, 7),
    }
    assert shapes("llama", dataclasses.replace(SMALL, tied=True)) == without(found, "lm_head.weight")
    assert shapes("qwen3", dataclasses.replace(SMALL, qk_norm=True)) == {
        **found,
        f"{layer}.self_attn.q_norm.weight": (4,),
        f"{layer}.self_attn.k_norm.weight": (4,),
    }


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("llama", {"attention_bias": "all", "feed_forward_bias": True}),
        ("llama", {"rotary_scaling": YarnScaling(factor=2.0, original_length=8)}),
        ("mistral", {"window": 3}),
        ("qwen2", {"attention_bias": "inputs", "window": 2}),
        ("qwen3", {"qk_norm": True, "attention_bias": "all"}),
    ],
)
def test_a_model_comes_back_from_a_folder(family, settings, tmp_path):
    loaded = random_model(dataclasses.replace(SMALL, attention_dropout=0.0, **settings))
    again = through_folder(loaded, family, tmp_path).loaded
    assert again.config == loaded.config
    assert torch.equal(outputs(again), outputs(loaded))
    assert to_huggingface(loaded).family == family  # the first that fits


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attention_bias": "inputs"}, "attention_bias = 'inputs', but a llama model has 'none'"),
        ({"window": 3}, "window = 3, but a llama model has None"),
        ({"scaled_embedding": True}, "scaled_embedding = True, but a llama model has False"),
        ({"rotary_dim": 2}, "partial_rotary_factor = 0.5 of rotary positions is not supported"),
        ({"norm": "layer"}, "norm = 'layer', but a llama model has 'rms'"),
    ],
)
def test_a_model_with_other_settings_is_none_of_this_family(settings, message):
    with pytest.raises(FolderError, match=message):
        to_huggingface(random_model(dataclasses.replace(SMALL, **settings)), "llama")


def test_biases_of_a_model_with_rms_norms_are_those_of_attentions():
    loaded = random_model(dataclasses.replace(SMALL, bias=True, attention_dropout=0.0))
    files = to_huggingface(loaded, "llama").files
    table = json.loads(files["config.json"])
    assert (table["attention_bias"], table["mlp_bias"]) == (True, False)
    assert "model.layers.0.self_attn.o_proj.bias" in files["model.safetensors"]
