import dataclasses

import pytest
import torch

from regard.errors import FolderError
from regard.models.decoder_only import DecoderOnlyConfig
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
SMALL = dataclasses.replace(
    CONFIG, d_model=4, num_heads=2, num_kv_heads=1, head_dim=4, num_layers=1, vocab_size=9, tied=False
)


@pytest.mark.parametrize(("family", "qk_norm"), [("llama", False), ("qwen3", True)])
def test_each_setting_is_one_of_ours(family, qk_norm):
    assert converted(family, TABLE).config == dataclasses.replace(CONFIG, qk_norm=qk_norm)


def test_a_setting_that_is_missing_is_the_default_of_transformers():
    assert converted("llama", NEEDED).config == dataclasses.replace(
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


@pytest.mark.parametrize("name", NEEDED)
def test_a_size_has_no_default(name):
    refused("llama", without(TABLE, name), f"config.json: '{name}' is missing")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attention_bias": True}, "attention_bias = True is not supported"),
        ({"mlp_bias": True}, "mlp_bias = True is not supported"),
        ({"use_sliding_window": True}, "use_sliding_window = True is not supported"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types has other types"),
        ({"hidden_act": "relu"}, "hidden_act = 'relu' is not supported"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5 is not supported"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "type 'linear' are not supported"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "type 'yarn' are not supported"),
        ({"rope_parameters": {"factor": 2.0}}, "factor = 2.0 of rotary positions is not supported"),
        ({"rope_scaling": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor = 0.5 of rotary"),
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
        {"pretraining_tp": 2, "max_window_layers": 7, "is_decoder": True, "sliding_window": 5},
        {"layer_types": ["full_attention"] * 3},
        {"partial_rotary_factor": 1.0, "rope_parameters": {"partial_rotary_factor": 1.0}},
        {"rope_scaling": {"type": "default"}, "rope_parameters": {"rope_type": "default"}},
    ],
    ids=str,
)
def test_what_changes_no_output_is_accepted(settings):
    assert converted("llama", TABLE | settings).config == CONFIG


def test_the_base_of_the_angles_stands_in_one_of_three_places_the_newest_first():
    table = without(TABLE, "rope_theta")
    for settings, base in (
        ({"rope_theta": 500}, 500.0),
        ({"rope_scaling": {"rope_theta": 400}, "rope_theta": 500.0}, 400.0),
        (
            {"rope_parameters": {"rope_theta": 300.5}, "rope_scaling": {"rope_theta": 400.0}},
            300.5,
        ),
    ):
        found = converted("llama", table | settings).config
        assert isinstance(found, DecoderOnlyConfig)
        assert found.rotary_base == base
        assert type(found.rotary_base) is float


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


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_model_comes_back_from_a_folder(family, tmp_path):
    loaded = random_model(dataclasses.replace(SMALL, attention_dropout=0.0, qk_norm=family == "qwen3"))
    again = through_folder(loaded, family, tmp_path).loaded
    assert again.config == loaded.config
    assert torch.equal(outputs(again), outputs(loaded))


def test_a_model_with_biases_is_none_of_this_family():
    with pytest.raises(FolderError, match="bias = True, but a llama model has False"):
        to_huggingface(random_model(dataclasses.replace(SMALL, bias=True)), "llama")
