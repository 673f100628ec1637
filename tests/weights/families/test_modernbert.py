import dataclasses

import pytest
import torch

from regard.errors import FolderError
from regard.models.encoder_only import EncoderOnlyConfig
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
    "architectures": ["ModernBertForMaskedLM"],
    "vocab_size": 20,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_hidden_layers": 4,
    "intermediate_size": 7,
    "local_attention": 6,
    "pad_token_id": 1,
}
CONFIG = EncoderOnlyConfig(
    vocab_size=20,
    head="masked_language_model",
    fresh_head=False,
    d_model=8,
    num_heads=2,
    num_layers=4,
    d_ff=7,
    norm_eps=1e-5,
    norm_position="pre",
    activation="geglu",
    bias=False,
    attention_bias="none",
    feed_forward_bias=False,
    positions="rotary",
    rotary_base=160_000.0,
    local_rotary_base=10_000.0,
    window=4,
    layer_types=(FULL, SLIDING, SLIDING),
    max_positions=8192,
    num_token_types=0,
    first_norm=False,
    dropout=0.0,
    attention_dropout=0.0,
    activation_dropout=0.0,
    head_activation="gelu",
    head_bias=False,
    head_norm=True,
    head_dropout=0.0,
    pad_id=1,
)


def of_head(head, **changes):
    labels = 3 if head in ("classification", "tokens") else 0
    return dataclasses.replace(CONFIG, head=head, num_labels=labels, **changes)


def test_each_setting_is_one_of_ours():
    assert converted("modernbert", TABLE).config == CONFIG
    older = {
        "global_attn_every_n_layers": 2,
        "global_rope_theta": 50.0,
        "local_rope_theta": 20,
        "layer_norm_eps": 1e-5,
        "position_embedding_type": "absolute",
        "reference_compile": None,
        "sparse_prediction": True,
        "classifier_pooling": "mean",
        "norm_bias": True,
        "classifier_activation": "tanh",
    }
    assert converted("modernbert", TABLE | older).config == dataclasses.replace(
        CONFIG,
        layer_types=(FULL, SLIDING),
        rotary_base=50.0,
        local_rotary_base=20.0,
        bias=True,
        pooling="mean",
        head_activation="tanh",
    )
    assert converted("modernbert", {**TABLE, "pad_token_id": None}).config.pad_id == 0
    assert converted("modernbert", {**TABLE, "global_attn_every_n_layers": 1}).config == dataclasses.replace(
        CONFIG, window=None, layer_types=None, local_rotary_base=None
    )
    usual = converted("modernbert", {"architectures": ["ModernBertModel"]}).config
    assert (usual.head, usual.num_layers, usual.window, usual.pad_id) == ("none", 22, 65, 50283)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decoder_bias": False}, "decoder_bias = False is not supported"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings = False is not supported"),
        ({"layer_norm_eps": 1e-3}, "layer_norm_eps = 0.001 is not supported"),
        ({"classifier_pooling": "max"}, "classifier_pooling = 'max' is not supported"),
        ({"hidden_activation": "relu"}, "hidden_activation = 'relu' is not supported"),
        ({"global_attn_every_n_layers": 0}, "global_attn_every_n_layers = 0 is below 1"),
        ({"layer_types": [FULL]}, "layer_types has 1 types for 4 layers"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling = .* is not supported"),
        ({"rope_theta": 9.0}, "'rope_theta' is unknown"),
        (
            {"rope_parameters": {SLIDING: {"rope_type": "linear", "factor": 2.0}}},
            "rope_parameters of sliding_attention are scaled",
        ),
        ({"is_decoder": True}, "is_decoder = True is not supported"),
        ({"num_key_value_heads": 1}, "'num_key_value_heads' is unknown"),
    ],
    ids=str,
)
def test_what_would_change_the_output_is_refused(settings, message):
    refused("modernbert", TABLE | settings, message)


def test_what_is_written_where_our_config_has_nothing():
    family = FAMILIES["modernbert"]
    assert family.write(CONFIG, ())["max_position_embeddings"] == CONFIG.max_positions
    full = dataclasses.replace(CONFIG, window=None, layer_types=None, local_rotary_base=None, norm_eps=None)
    assert (family.write(full, ())["local_attention"], family.write(full, ())["norm_eps"]) == (128, 1e-5)


def test_only_pooling_without_a_layer_has_another_form():
    family = FAMILIES["modernbert"]
    for config in (of_head("tokens", pooler=False), of_head("pooled")):
        assert family.in_family_form(config, {}) == (config, {})
    pooled = of_head("pooled", pooler=False, pooling="mean", normalised=True)
    assert family.in_family_form(pooled, {})[0] == of_head("none")


HEADS = {
    "none": {},
    "masked_language_model": {"decoder.bias": (20,)},
    "classification": {"classifier.weight": (3, 8), "classifier.bias": (3,)},
    "tokens": {"classifier.weight": (3, 8), "classifier.bias": (3,)},
    "spans": {"classifier.weight": (2, 8), "classifier.bias": (2,)},
}


@pytest.mark.parametrize("head", HEADS)
def test_the_file_has_the_tensors_of_transformers(head):
    found = shapes("modernbert", of_head(head))
    layer = {} if head == "none" else {"head.dense.weight": (8, 8), "head.norm.weight": (8,)}
    assert {name: shape for name, shape in found.items() if not name.startswith("model.")} == {
        **HEADS[head],
        **layer,
    }
    assert found["model.layers.1.attn.Wqkv.weight"] == (24, 8)
    assert found["model.layers.1.mlp.Wi.weight"] == (14, 8)
    assert "model.layers.1.attn_norm.weight" in found
    assert "model.layers.0.attn_norm.weight" not in found
    biased = shapes("modernbert", of_head(head, bias=True, attention_bias="all", feed_forward_bias=True))
    assert {"model.embeddings.norm.bias", "model.layers.0.attn.Wo.bias", "model.layers.0.mlp.Wi.bias"} <= {
        *biased
    }


@pytest.mark.parametrize("head", [*HEADS, "regression"])
@pytest.mark.parametrize("changes", [{}, {"bias": True, "head_bias": True, "layer_types": None}])
def test_a_model_comes_back_from_a_folder(head, changes, tmp_path):
    if "layer_types" in changes:
        changes = {**changes, "local_rotary_base": None}
    config = of_head(head, **changes)
    loaded = random_model(config, tuple("xyz"[: config.num_labels]))
    found = through_folder(loaded, "modernbert", tmp_path)
    assert (canonical(found.loaded.config), found.loaded.labels) == (canonical(config), loaded.labels)
    assert torch.equal(outputs(found.loaded), outputs(loaded))
    assert to_huggingface(loaded).family == "modernbert"  # the first that fits


def test_a_sentence_encoder_comes_back_from_a_folder(tmp_path):
    config = of_head("pooled", pooler=False, pooling="mean", normalised=True)
    loaded = random_model(config)
    found = through_folder(loaded, "modernbert", tmp_path)
    assert canonical(found.loaded.config) == canonical(config)
    assert torch.equal(outputs(found.loaded), outputs(loaded))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"first_norm": True}, "first_norm = True, but a modernbert model has False"),
        ({"embedding_norm": False}, "embedding_norm = False, but a modernbert model has True"),
        ({"attention_bias": "inputs"}, "attention_bias = 'inputs', but a modernbert model has 'none'"),
        ({"num_token_types": 2}, "num_token_types = 2, but a modernbert model has 0"),
        ({"input_convolution": 3}, "input_convolution = 3, but a modernbert model has None"),
        (
            {"head": "classification", "num_labels": 3, "head_norm": False},
            "head_norm = False, but a modernbert",
        ),
    ],
    ids=str,
)
def test_other_models_are_none_of_this_family(settings, message):
    with pytest.raises(FolderError, match=message):
        to_huggingface(random_model(dataclasses.replace(CONFIG, **settings)), "modernbert")


def test_half_of_the_window_is_on_each_side():
    for theirs, ours in ((128, 65), (6, 4), (7, 4), (0, 1)):
        found = converted("modernbert", {**TABLE, "local_attention": theirs}).config
        assert found.window == ours
    assert FAMILIES["modernbert"].write(CONFIG, ())["local_attention"] == 6


def test_a_model_without_an_epsilon_has_that_of_its_norm():
    """The epsilon of a layer norm is what the model computes with, and what is read again."""
    family = FAMILIES["modernbert"]
    written = family.write(dataclasses.replace(CONFIG, norm_eps=None), ())
    assert written["norm_eps"] == 1e-5
    assert written["local_attention"] == 6
    assert family.write(dataclasses.replace(CONFIG, norm_eps=1e-4), ())["norm_eps"] == 1e-4
