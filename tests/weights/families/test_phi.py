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
)

TABLE = {
    "vocab_size": 9,
    "hidden_size": 20,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_hidden_layers": 1,
    "intermediate_size": 5,
    "max_position_embeddings": 40,
    "partial_rotary_factor": 0.4,
    "qk_layernorm": True,
}
CONFIG = DecoderOnlyConfig(
    vocab_size=9,
    d_model=20,
    num_heads=2,
    num_kv_heads=1,
    num_layers=1,
    d_ff=5,
    norm_eps=1e-5,
    activation="gelu_tanh",
    positions="rotary",
    rotary_dim=4,
    qk_norm=True,
    max_positions=40,
    trained_length=40,
    parallel_residual="one_norm",
    dropout=0.0,
    attention_dropout=0.0,
    tied=False,
    output_bias=True,
)


def test_each_setting_is_one_of_ours():
    assert converted("phi", TABLE).config == CONFIG
    assert converted("phi", {**TABLE, "head_dim": 10}).config == CONFIG
    one = converted("phi", {**TABLE, "num_attention_heads": 1, "head_dim": 20}).config
    assert one == dataclasses.replace(CONFIG, num_heads=1, rotary_dim=8)
    usual = converted("phi", {}).config
    assert (usual.d_model, usual.num_heads, usual.rotary_dim, usual.qk_norm) == (2048, 32, 32, False)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head_dim": 4}, "head_dim = 4 is not supported"),
        ({"embd_pdrop": 0.5}, "embd_pdrop = 0.5 is not supported"),
        ({"attention_bias": False}, "'attention_bias' is unknown"),
        ({"rotary_dim": 4}, "'rotary_dim' is unknown"),
        ({"hidden_act": "silu2"}, "hidden_act = 'silu2' is not supported"),
    ],
    ids=str,
)
def test_what_would_change_the_output_is_refused(settings, message):
    refused("phi", TABLE | settings, message)


def test_one_norm_is_in_the_file_once():
    found = shapes("phi", CONFIG)
    assert [name for name in found if "layernorm.weight" in name and "layers.0" in name] == [
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.self_attn.q_layernorm.weight",
        "model.layers.0.self_attn.k_layernorm.weight",
    ]


@pytest.mark.parametrize("changes", [{}, {"tied": True}, {"qk_norm": False, "num_kv_heads": 2}])
def test_a_model_comes_back_from_a_folder(changes, tmp_path):
    loaded = random_model(dataclasses.replace(CONFIG, **changes))
    again = through_folder(loaded, "phi", tmp_path).loaded
    assert again.config == loaded.config
    assert torch.equal(outputs(again), outputs(loaded))
    assert to_huggingface(loaded).family == "phi"  # the first that fits


def test_missing_biases_are_written_as_zeros(tmp_path):
    loaded = random_model(dataclasses.replace(CONFIG, bias=False, output_bias=False))
    torch.testing.assert_close(outputs(through_folder(loaded, "phi", tmp_path).loaded), outputs(loaded))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"parallel_residual": "two_norms"},
            "parallel_residual = 'two_norms', but a phi model has 'one_norm'",
        ),
        ({"parallel_residual": None}, "parallel_residual = None, but a phi model has 'one_norm'"),
        ({"norm": "rms"}, "norm = 'rms', but a phi model has 'layer'"),
        ({"qk_norm": "all_heads"}, "qk_norm = 'all_heads', but a phi model has True"),
    ],
    ids=str,
)
def test_other_models_are_none_of_this_family(settings, message):
    with pytest.raises(FolderError, match=message):
        to_huggingface(random_model(dataclasses.replace(CONFIG, **settings)), "phi")


def test_what_is_written_where_our_config_has_nothing():
    written = FAMILIES["phi"].write(dataclasses.replace(CONFIG, norm_eps=None, rotary_dim=None), ())
    assert (written["layer_norm_eps"], written["partial_rotary_factor"]) == (1e-5, 1.0)
