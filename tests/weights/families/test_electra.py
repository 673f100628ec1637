"""ELECTRA, and XLM-RoBERTa, which is RoBERTa under another name."""

import dataclasses

import pytest
import torch

from regard.errors import FolderError
from regard.models.encoder_only import EncoderOnlyConfig
from regard.weights.pretrained import FAMILIES, load_pretrained, to_huggingface
from tests.weights.families.conversion import (
    converted,
    outputs,
    random_model,
    refused,
    shapes,
    through_folder,
)

TABLE = {
    "architectures": ["ElectraForPreTraining"],
    "vocab_size": 20,
    "embedding_size": 6,
    "hidden_size": 8,
    "num_attention_heads": 4,
    "num_hidden_layers": 1,
    "intermediate_size": 7,
    "hidden_act": "relu",
    "max_position_embeddings": 40,
}
CONFIG = EncoderOnlyConfig(
    vocab_size=20,
    head="replaced_tokens",
    fresh_head=False,
    d_model=8,
    embedding_size=6,
    num_heads=4,
    num_layers=1,
    d_ff=7,
    norm_eps=1e-12,
    activation="relu",
    head_activation="relu",
    max_positions=40,
)


def of_head(head, **changes):
    activation = "gelu" if head in ("classification", "regression", "masked_language_model") else None
    labels = 3 if head in ("classification", "tokens") else 0
    activation = "relu" if head == "replaced_tokens" else activation
    return dataclasses.replace(CONFIG, head=head, num_labels=labels, head_activation=activation, **changes)


def test_each_setting_is_one_of_ours():
    assert converted("electra", TABLE).config == CONFIG
    assert converted("electra", {**TABLE, "embedding_size": 8}).config == dataclasses.replace(
        CONFIG, embedding_size=None
    )
    usual = {name: value for name, value in TABLE.items() if name != "embedding_size"}
    assert converted("electra", usual).config.embedding_size == 128
    summary = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}
    assert converted("electra", {**TABLE, **summary, "summary_last_dropout": 0.1}).config == CONFIG


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key' is not"),
        ({"is_decoder": True}, "is_decoder = True is not supported"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings = False is not supported"),
        ({"embedding_size": "8"}, "embedding_size = '8' is not of type int"),
        ({"summary_kind": "first"}, "'summary_kind' is unknown"),
    ],
    ids=str,
)
def test_what_would_change_the_output_is_refused(settings, message):
    refused("electra", TABLE | settings, message)


def test_a_class_of_another_task_is_refused():
    with pytest.raises(FolderError, match="the head of class ElectraForMultipleChoice is not supported"):
        converted("electra", {**TABLE, "architectures": ["ElectraForMultipleChoice"]})


HEADS = {
    "none": {},
    "replaced_tokens": {
        "discriminator_predictions.dense.weight": (8, 8),
        "discriminator_predictions.dense.bias": (8,),
        "discriminator_predictions.dense_prediction.weight": (1, 8),
        "discriminator_predictions.dense_prediction.bias": (1,),
    },
    "masked_language_model": {
        "generator_predictions.dense.weight": (6, 8),
        "generator_predictions.dense.bias": (6,),
        "generator_predictions.LayerNorm.weight": (6,),
        "generator_predictions.LayerNorm.bias": (6,),
        "generator_lm_head.bias": (20,),
    },
    "classification": {
        "classifier.dense.weight": (8, 8),
        "classifier.dense.bias": (8,),
        "classifier.out_proj.weight": (3, 8),
        "classifier.out_proj.bias": (3,),
    },
    "tokens": {"classifier.weight": (3, 8), "classifier.bias": (3,)},
    "spans": {"qa_outputs.weight": (2, 8), "qa_outputs.bias": (2,)},
}


@pytest.mark.parametrize("head", HEADS)
def test_the_file_has_the_tensors_of_transformers(head):
    found = shapes("electra", of_head(head))
    assert {name: shape for name, shape in found.items() if not name.startswith("electra.")} == HEADS[head]
    assert found["electra.embeddings_project.weight"] == (8, 6)
    assert found["electra.embeddings.position_embeddings.weight"] == (40, 6)
    narrow = shapes("electra", of_head(head, embedding_size=None))
    assert "electra.embeddings_project.weight" not in narrow


@pytest.mark.parametrize("head", [*HEADS, "regression"])
def test_a_model_comes_back_from_a_folder(head, tmp_path):
    config = of_head(head)
    loaded = random_model(config, tuple("xyz"[: config.num_labels]))
    found = through_folder(loaded, "electra", tmp_path)
    assert (found.loaded.config, found.loaded.labels) == (config, loaded.labels)
    assert torch.equal(outputs(found.loaded), outputs(loaded))
    assert to_huggingface(loaded).family == "electra"  # the first that fits


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "distilbert"])
def test_narrow_embeddings_and_its_head_are_of_no_other_family(family):
    message = f"embedding_size = 6, but a {family} model has None|head = 'replaced_tokens', but a"
    common = {"pad_id": 1, "position_offset": 2} if "roberta" in family else {}
    for config in (of_head("replaced_tokens", **common), of_head("none", **common)):
        with pytest.raises(FolderError, match=message):
            to_huggingface(random_model(config), family)


def test_xlm_roberta_is_roberta_under_another_name(tmp_path):
    table = {name: value for name, value in TABLE.items() if name not in ("embedding_size", "architectures")}
    table |= {"max_position_embeddings": 42, "pad_token_id": 1, "type_vocab_size": 1}
    for suffix, head in (("Model", "none"), ("ForTokenClassification", "tokens"), ("ForMaskedLM", None)):
        theirs = converted("xlm-roberta", {**table, "architectures": [f"XLMRoberta{suffix}"]}).config
        assert theirs == converted("roberta", {**table, "architectures": [f"Roberta{suffix}"]}).config
        assert head is None or theirs.head == head
        written = FAMILIES["xlm-roberta"].write(theirs, ())
        assert (written["model_type"], written["architectures"]) == ("xlm-roberta", [f"XLMRoberta{suffix}"])
        loaded = random_model(theirs, tuple("xy"[: theirs.num_labels]))
        again = through_folder(loaded, "xlm-roberta", tmp_path / suffix).loaded
        assert torch.equal(outputs(again), outputs(loaded))
    refused("xlm-roberta", {**table, "pad_token_id": 0}, "pad_token_id = 0 is not supported")
    with pytest.raises(FolderError, match="the head of class RobertaForCausalLM is not supported"):
        converted("xlm-roberta", {**table, "architectures": ["RobertaForCausalLM"]})


def test_pieces_of_xlm_roberta_without_a_tokenizer_json_are_refused(tmp_path):
    loaded = random_model(of_head("none"))
    through_folder(loaded, "electra", tmp_path)
    (tmp_path / "electra" / "sentencepiece.bpe.model").write_bytes(b"pieces")
    with pytest.raises(FolderError, match=r"sentencepiece\.bpe\.model alone is not supported"):
        load_pretrained(tmp_path / "electra")
