import dataclasses

import pytest
import torch

from regard.errors import FolderError
from regard.models.encoder_only import EncoderOnlyConfig
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

NEEDED = {"vocab_size": 20, "dim": 8, "n_heads": 4, "n_layers": 3, "hidden_dim": 7}
TABLE = {
    **NEEDED,
    "architectures": ["DistilBertForMaskedLM"],
    "activation": "relu",
    "max_position_embeddings": 40,
    "dropout": 0.2,
    "attention_dropout": 0.3,
    "seq_classif_dropout": 0.4,
    "pad_token_id": 1,
}
CONFIG = EncoderOnlyConfig(
    vocab_size=20,
    head="masked_language_model",
    fresh_head=False,
    d_model=8,
    num_heads=4,
    num_layers=3,
    d_ff=7,
    norm_eps=1e-12,
    activation="relu",
    head_activation="relu",
    max_positions=40,
    num_token_types=0,
    dropout=0.2,
    attention_dropout=0.3,
    head_dropout=0.4,
    pad_id=1,
)
HEADS = {
    "none": ({}, 0, None),
    "masked_language_model": (
        {
            "vocab_transform.weight": (4, 4),
            "vocab_transform.bias": (4,),
            "vocab_layer_norm.weight": (4,),
            "vocab_layer_norm.bias": (4,),
            "vocab_projector.bias": (9,),
        },
        0,
        "gelu",
    ),
    "classification": (
        {
            "pre_classifier.weight": (4, 4),
            "pre_classifier.bias": (4,),
            "classifier.weight": (3, 4),
            "classifier.bias": (3,),
        },
        3,
        "relu",
    ),
    "tokens": ({"classifier.weight": (3, 4), "classifier.bias": (3,)}, 3, None),
    "spans": ({"qa_outputs.weight": (2, 4), "qa_outputs.bias": (2,)}, 0, None),
}


def small(head: str) -> EncoderOnlyConfig:
    _, count, activation = HEADS[head]
    sizes = {"vocab_size": 9, "d_model": 4, "num_heads": 2, "num_layers": 1, "max_positions": 6}
    heads = {"head": head, "num_labels": count, "head_activation": activation, "activation": "gelu"}
    if head == "tokens":
        heads["head_dropout"] = CONFIG.dropout  # DistilBERT's has no other
    return dataclasses.replace(CONFIG, **sizes, **heads)


def test_each_setting_is_one_of_ours():
    assert converted("distilbert", TABLE).config == CONFIG
    assert converted("distilbert", FAMILIES["distilbert"].write(CONFIG, ())).config == CONFIG
    names = {"dim": "hidden_size", "n_heads": "num_attention_heads", "n_layers": "num_hidden_layers"}
    newer = {names.get(name, name): value for name, value in TABLE.items()}
    assert converted("distilbert", newer).config == CONFIG


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("ForSequenceClassification", "seq_classif_dropout"),
        ("ForTokenClassification", "dropout"),
        ("ForQuestionAnswering", "qa_dropout"),
    ],
)
def test_each_head_has_the_dropout_that_transformers_gives_it(architecture, name):
    table = {**TABLE, "architectures": [f"DistilBert{architecture}"], "qa_dropout": 0.5}
    found = converted("distilbert", table).config
    assert found.head_dropout == table[name]
    written = FAMILIES["distilbert"].write(found, ())
    assert written["dropout"] == table["dropout"]
    assert written[name] == table[name]


def test_a_setting_that_is_missing_is_the_default_of_transformers():
    found = converted("distilbert", NEEDED)
    assert found.config == dataclasses.replace(
        CONFIG,
        head="none",
        activation="gelu",
        head_activation=None,
        max_positions=512,
        dropout=0.1,
        attention_dropout=0.1,
        head_dropout=0.2,
        pad_id=0,
    )
    assert found.pad_id is None


@pytest.mark.parametrize("name", NEEDED)
def test_a_size_has_no_default(name):
    refused("distilbert", without(TABLE, name), f"'{name}' is missing")


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("is_decoder", True, False),
        ("tie_word_embeddings", False, True),
        ("tie_weights_", False, True),
        ("activation", "mish", "relu"),
    ],
)
def test_what_would_change_the_output_is_refused(name, wrong, right):
    refused("distilbert", {**TABLE, name: wrong}, f"{name} = {wrong!r} is not supported")
    assert converted("distilbert", {**TABLE, name: right}).config == CONFIG


def test_what_changes_no_output_is_accepted():
    assert (
        converted("distilbert", {**TABLE, "sinusoidal_pos_embds": True, "qa_dropout": 0.5}).config == CONFIG
    )


@pytest.mark.parametrize("head", HEADS)
def test_the_file_has_the_tensors_of_transformers(head):
    block, embeddings = "distilbert.transformer.layer.0", "distilbert.embeddings"
    dense = {f"{block}.attention.{each}_lin": (4, 4) for each in ("q", "k", "v", "out")}
    dense |= {f"{block}.ffn.lin1": (7, 4), f"{block}.ffn.lin2": (4, 7)}
    norms = (f"{embeddings}.LayerNorm", f"{block}.sa_layer_norm", f"{block}.output_layer_norm")
    assert shapes("distilbert", small(head)) == {
        f"{embeddings}.word_embeddings.weight": (9, 4),
        f"{embeddings}.position_embeddings.weight": (6, 4),
        **{f"{name}.weight": shape for name, shape in dense.items()},
        **{f"{name}.bias": shape[:1] for name, shape in dense.items()},
        **{f"{name}.{part}": (4,) for name in norms for part in ("weight", "bias")},
        **HEADS[head][0],
    }


@pytest.mark.parametrize("head", [*HEADS, "regression"])
def test_a_model_comes_back_from_a_folder(head, tmp_path):
    config = small("classification" if head == "regression" else head)
    if head == "regression":
        config = dataclasses.replace(config, head=head, num_labels=0)
    loaded = random_model(config, tuple("xyz"[: config.num_labels]))
    found = through_folder(loaded, "distilbert", tmp_path)
    assert (found.loaded.config, found.loaded.labels) == (config, loaded.labels)
    assert torch.equal(outputs(found.loaded), outputs(loaded))


def test_a_sentence_encoder_comes_back_from_a_folder(tmp_path):
    config = dataclasses.replace(small("none"), head="pooled", pooler=False, pooling="mean", normalised=True)
    loaded = random_model(config)
    found = through_folder(loaded, "distilbert", tmp_path)
    assert found.loaded.config == config
    assert torch.equal(outputs(found.loaded), outputs(loaded))


def test_a_pooling_layer_has_no_place_in_a_file():
    loaded = random_model(dataclasses.replace(small("none"), head="pooled"))
    with pytest.raises(FolderError, match="head = 'pooled', but a distilbert model has 'none'"):
        to_huggingface(loaded, "distilbert")
