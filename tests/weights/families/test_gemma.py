import dataclasses

import pytest
import torch

from regard.errors import FolderError
from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.pretrained import to_huggingface
from tests.weights.families.conversion import converted, outputs, random_model, refused, through_folder

TABLE = {
    "vocab_size": 9,
    "hidden_size": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 6,
    "num_hidden_layers": 1,
    "intermediate_size": 5,
    "max_position_embeddings": 40,
}
CONFIG = DecoderOnlyConfig(
    vocab_size=9,
    d_model=4,
    num_heads=2,
    num_kv_heads=1,
    head_dim=6,
    num_layers=1,
    d_ff=5,
    norm="rms",
    norm_eps=1e-6,
    activation="geglu_tanh",
    bias=False,
    positions="rotary",
    max_positions=40,
    trained_length=40,
    dropout=0.0,
    attention_dropout=0.0,
    scaled_embedding=True,
    tied=True,
)


def test_each_setting_is_one_of_ours():
    assert converted("gemma", TABLE).config == CONFIG
    few = {name: TABLE[name] for name in TABLE if "head" not in name and "max" not in name}
    found = converted("gemma", {**few, "num_attention_heads": 16, "hidden_size": 64}).config
    assert found == dataclasses.replace(
        CONFIG,
        num_heads=16,
        num_kv_heads=16,
        head_dim=256,
        d_model=64,
        max_positions=8192,
        trained_length=8192,
    )


def test_gelu_is_the_old_name_of_its_activation():
    assert converted("gemma", {**TABLE, "hidden_act": "gelu"}).config == CONFIG
    assert converted("gemma", {**TABLE, "hidden_activation": "gelu_pytorch_tanh"}).config == CONFIG
    assert converted("gemma", {**TABLE, "hidden_act": "silu"}).config == dataclasses.replace(
        CONFIG, activation="swiglu"
    )
    refused("gemma", {**TABLE, "hidden_activation": "gelu"}, "hidden_activation = 'gelu' is not supported")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention = True is not supported"),
        ({"mlp_bias": True}, "mlp_bias = True is not supported"),
        ({"attn_logit_softcapping": 50.0}, "'attn_logit_softcapping' is unknown"),
        ({"query_pre_attn_scalar": 50}, "'query_pre_attn_scalar' is unknown"),
        ({"sliding_window": 5}, "sliding_window = 5 is not supported"),
        ({"layer_types": ["sliding_attention"]}, "layer_types"),
    ],
    ids=str,
)
def test_what_would_change_the_output_is_refused(settings, message):
    refused("gemma", TABLE | settings, message)


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_comes_back_from_a_folder(tied, tmp_path):
    loaded = random_model(dataclasses.replace(CONFIG, tied=tied, attention_bias="all"))
    again = through_folder(loaded, "gemma", tmp_path).loaded
    assert again.config == loaded.config
    torch.testing.assert_close(outputs(again), outputs(loaded), rtol=1e-5, atol=1e-5)
    assert to_huggingface(loaded).family == "gemma"  # the first that fits


def test_its_gains_are_less_by_one_in_the_file():
    loaded = random_model(CONFIG)
    written = to_huggingface(loaded, "gemma").files["model.safetensors"]
    assert torch.equal(written["model.norm.weight"], loaded.model.norm.weight - 1)


def test_exact_gelu_cannot_be_written():
    with pytest.raises(FolderError, match="activation = 'geglu', but a gemma model has 'geglu_tanh'"):
        to_huggingface(random_model(dataclasses.replace(CONFIG, activation="geglu")), "gemma")
