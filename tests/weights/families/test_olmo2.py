import dataclasses

import pytest
import torch

from regard.errors import FolderError
from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.pretrained import to_huggingface
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
    "hidden_size": 12,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 5,
    "max_position_embeddings": 40,
    "head_dim": 4,
}
CONFIG = DecoderOnlyConfig(
    vocab_size=9,
    d_model=12,
    num_heads=4,
    num_kv_heads=2,
    head_dim=4,
    num_layers=1,
    d_ff=5,
    norm="rms",
    norm_eps=1e-5,
    norm_position="reordered",
    activation="swiglu",
    bias=False,
    qk_norm="all_heads",
    positions="rotary",
    max_positions=40,
    trained_length=40,
    dropout=0.0,
    attention_dropout=0.0,
    tied=False,
)


def test_each_setting_is_one_of_ours():
    assert converted("olmo2", TABLE).config == CONFIG
    few = {name: TABLE[name] for name in TABLE if name not in ("head_dim", "num_key_value_heads")}
    assert converted("olmo2", {**few, "hidden_size": 16}).config == dataclasses.replace(
        CONFIG, d_model=16, num_kv_heads=None, head_dim=None
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clip_qkv": 8.0}, "'clip_qkv' is unknown"),
        ({"mlp_bias": True}, "mlp_bias = True is not supported"),
        ({"sliding_window": 5}, "sliding_window = 5 is not supported"),
        ({"layer_types": ["sliding_attention"]}, "the type 'sliding_attention' of layer_types does not fit"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5 of rotary positions is not supported"),
    ],
    ids=str,
)
def test_what_would_change_the_output_is_refused(settings, message):
    refused("olmo2", TABLE | settings, message)


def test_norms_of_queries_and_keys_are_as_wide_as_all_heads():
    found, layer = shapes("olmo2", CONFIG), "model.layers.0"
    assert found[f"{layer}.self_attn.q_norm.weight"] == (16,)
    assert found[f"{layer}.self_attn.k_norm.weight"] == (8,)
    assert f"{layer}.input_layernorm.weight" not in found


@pytest.mark.parametrize("changes", [{}, {"tied": True}, {"attention_bias": "all"}])
def test_a_model_comes_back_from_a_folder(changes, tmp_path):
    loaded = random_model(dataclasses.replace(CONFIG, **changes))
    again = through_folder(loaded, "olmo2", tmp_path).loaded
    assert again.config == loaded.config
    assert torch.equal(outputs(again), outputs(loaded))
    assert to_huggingface(loaded).family == "olmo2"  # the first that fits


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"qk_norm": True}, "qk_norm = True, but a olmo2 model has 'all_heads'"),
        ({"norm_position": "pre"}, "norm_position = 'pre', but a olmo2 model has 'reordered'"),
        ({"attention_softcap": 5.0}, "attention_softcap = 5.0, but a olmo2 model has None"),
    ],
)
def test_other_models_are_none_of_this_family(settings, message):
    with pytest.raises(FolderError, match=message):
        to_huggingface(random_model(dataclasses.replace(CONFIG, **settings)), "olmo2")
