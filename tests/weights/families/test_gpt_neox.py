import dataclasses
import json

import pytest
import torch

from regard.errors import ConfigError, FolderError
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

TABLE = {
    "vocab_size": 9,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 5,
    "max_position_embeddings": 40,
    "rotary_pct": 0.5,
    "rotary_emb_base": 300,
    "tie_word_embeddings": True,
}
CONFIG = DecoderOnlyConfig(
    vocab_size=9,
    d_model=16,
    num_heads=2,
    num_layers=1,
    d_ff=5,
    norm_eps=1e-5,
    positions="rotary",
    rotary_base=300.0,
    rotary_dim=4,
    max_positions=40,
    trained_length=40,
    parallel_residual="two_norms",
    dropout=0.0,
    attention_dropout=0.0,
    tied=True,
)


def test_each_setting_is_one_of_ours():
    assert converted("gpt_neox", TABLE).config == CONFIG
    changed = {"use_parallel_residual": False, "attention_bias": False, "hidden_act": "gelu_fast"}
    assert converted("gpt_neox", {**TABLE, **changed}).config == dataclasses.replace(
        CONFIG, parallel_residual=None, attention_bias="none", activation="gelu_tanh"
    )
    assert converted("gpt_neox", {**TABLE, "head_dim": 8}).config == CONFIG
    one = converted("gpt_neox", {**TABLE, "num_attention_heads": 1, "head_dim": 16}).config
    assert one == dataclasses.replace(CONFIG, num_heads=1, rotary_dim=8)
    usual = converted("gpt_neox", {}).config
    assert (usual.d_model, usual.num_heads, usual.rotary_dim, usual.tied) == (6144, 64, 24, False)
    scaled = {"rope_scaling": {"type": "linear", "factor": 2.0}}
    assert converted("gpt_neox", {**TABLE, **scaled}).config == dataclasses.replace(
        CONFIG, rotary_scaling=LinearScaling(factor=2.0)
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head_dim": 4}, "head_dim = 4 is not supported"),
        ({"rope_theta": 9.0}, "'rope_theta' is unknown"),
        ({"partial_rotary_factor": 0.5}, "'partial_rotary_factor' is unknown"),
        ({"num_key_value_heads": 1}, "'num_key_value_heads' is unknown"),
        ({"hidden_act": "gelu_10"}, "hidden_act = 'gelu_10' is not supported"),
        ({"use_parallel_residual": 1}, "use_parallel_residual = 1 is not of type bool"),
        ({"rope_scaling": {"type": "longrope"}}, "type 'longrope' are not supported"),
    ],
    ids=str,
)
def test_what_would_change_the_output_is_refused(settings, message):
    refused("gpt_neox", TABLE | settings, message)


@pytest.mark.parametrize(("part", "features"), [(0.4, 3), (0.0, 0), (1.5, 12)])
def test_a_part_that_cannot_be_rotated_is_refused(part, features):
    with pytest.raises(ConfigError, match=f"rotary_dim = {features} of 8 features is not possible"):
        converted("gpt_neox", TABLE | {"rotary_pct": part})


def test_a_head_has_its_query_key_and_value_together_in_the_file():
    loaded = random_model(CONFIG)
    written = to_huggingface(loaded, "gpt_neox").files["model.safetensors"]
    stacked = written["gpt_neox.layers.0.attention.query_key_value.weight"].view(2, 3, 8, 16)
    own = loaded.model.blocks[0].self_attention.query_key_value.weight.view(3, 2, 8, 16)
    for head in range(2):
        for part in range(3):
            assert torch.equal(stacked[head, part], own[part, head])
    assert shapes("gpt_neox", CONFIG)["gpt_neox.layers.0.attention.query_key_value.bias"] == (48,)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("parallel", ["two_norms", None])
def test_a_model_comes_back_from_a_folder(tied, parallel, tmp_path):
    loaded = random_model(dataclasses.replace(CONFIG, tied=tied, parallel_residual=parallel))
    again = through_folder(loaded, "gpt_neox", tmp_path).loaded
    assert again.config == loaded.config
    assert torch.equal(outputs(again), outputs(loaded))
    assert to_huggingface(loaded).family == "gpt_neox"  # the first that fits


def test_old_and_new_names_of_the_head_are_known(tmp_path):
    loaded = random_model(dataclasses.replace(CONFIG, tied=False))
    files = to_huggingface(loaded, "gpt_neox").files
    assert "embed_out.weight" in files["model.safetensors"]
    assert FAMILIES["gpt_neox"].renames == ((r"^lm_head\.", "embed_out."),)


def test_missing_biases_are_written_as_zeros(tmp_path):
    loaded = random_model(dataclasses.replace(CONFIG, bias=False))
    again = through_folder(loaded, "gpt_neox", tmp_path).loaded
    torch.testing.assert_close(outputs(again), outputs(loaded))
    assert again.config.attention_bias == "none"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parallel_residual": "one_norm"}, "parallel_residual = 'one_norm', but a gpt_neox model has 'two"),
        ({"output_bias": True}, "output_bias = True, but a gpt_neox model has False"),
        ({"window": 3}, "window = 3, but a gpt_neox model has None"),
        ({"head_dim": 4, "rotary_dim": 2}, "head_dim = 4, but a gpt_neox model has 8"),
        ({"head_dim": 6}, "a gpt_neox model would differ: rotary_dim = 5 of 8 features is not possible"),
        ({"logit_softcap": 3.0}, "logit_softcap = 3.0, but a gpt_neox model has None"),
        ({"norm_position": "reordered", "parallel_residual": None}, "norm_position = 'reordered', but"),
    ],
    ids=str,
)
def test_other_models_are_none_of_this_family(settings, message):
    with pytest.raises(FolderError, match=message):
        to_huggingface(random_model(dataclasses.replace(CONFIG, **settings)), "gpt_neox")


def test_what_is_written_describes_the_same_model():
    written = FAMILIES["gpt_neox"].write(CONFIG, ())
    assert (written["rotary_pct"], written["rotary_emb_base"]) == (0.5, 300.0)
    json.dumps(written)
    usual = dataclasses.replace(CONFIG, norm_eps=None, rotary_dim=None)
    plain = FAMILIES["gpt_neox"].write(usual, ())
    assert (plain["rotary_pct"], plain["layer_norm_eps"]) == (1.0, 1e-5)
    assert canonical(converted("gpt_neox", written).config) == canonical(CONFIG)


def test_the_model_attends_causally_whether_it_is_called_a_decoder_or_not():
    for value in (True, False, None):
        assert converted("gpt_neox", {**TABLE, "is_decoder": value}).config == CONFIG
    refused("gpt_neox", {**TABLE, "is_decoder": "no"}, "is_decoder = 'no' is not supported")
