import dataclasses

import pytest
import torch

from regard.errors import ConfigError, FolderError
from regard.models.encoder_only import EncoderOnlyConfig
from regard.weights.names import renamed
from regard.weights.pretrained import FAMILIES
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
    "architectures": ["BertForMaskedLM"],
    "hidden_act": "relu",
    "layer_norm_eps": 1e-4,
    "max_position_embeddings": 40,
    "type_vocab_size": 3,
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.3,
    "classifier_dropout": 0.4,
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
    norm_eps=1e-4,
    activation="relu",
    head_activation="relu",
    max_positions=40,
    num_token_types=3,
    dropout=0.2,
    attention_dropout=0.3,
    head_dropout=0.4,
    pad_id=1,
)
SMALL = dataclasses.replace(
    CONFIG,
    vocab_size=9,
    d_model=4,
    num_heads=2,
    num_layers=1,
    max_positions=6,
    num_token_types=2,
    activation="gelu",
    head_activation="gelu",
)
LABELS = {"id2label": {"0": "bad", "1": "good"}}
FAMILY_OF = {"Bert": "bert", "Roberta": "roberta", "DistilBert": "distilbert"}
ROBERTA = {"position_offset": 2, "max_positions": 38, "head_activation": None}


def test_each_setting_is_one_of_ours():
    assert converted("bert", TABLE).config == CONFIG
    assert converted("bert", FAMILIES["bert"].write(CONFIG, ())).config == CONFIG


def test_roberta_counts_positions_from_two_and_always_has_gelu_in_its_head():
    ours = dataclasses.replace(CONFIG, **ROBERTA)
    table = {**TABLE, "architectures": ["RobertaForMaskedLM"]}
    assert converted("roberta", table).config == ours
    written = FAMILIES["roberta"].write(ours, ())
    assert written["max_position_embeddings"] == 40
    assert converted("roberta", written).config == ours


@pytest.mark.parametrize(("family", "pad", "offset"), [("bert", 0, 0), ("roberta", 1, 2)])
def test_a_setting_that_is_missing_is_the_default_of_transformers(family, pad, offset):
    found = converted(family, NEEDED)
    assert found.config == dataclasses.replace(
        CONFIG,
        head="none",
        head_activation=None,
        activation="gelu",
        norm_eps=1e-12,
        max_positions=512 - offset,
        position_offset=offset,
        num_token_types=2,
        dropout=0.1,
        attention_dropout=0.1,
        head_dropout=0.1,
        pad_id=pad,
    )
    assert found.pad_id is None
    written = FAMILIES[family].write(dataclasses.replace(CONFIG, norm_eps=None), ())
    assert written["layer_norm_eps"] == pytest.approx(1e-5)


def test_the_head_drops_as_much_as_the_rest_unless_it_has_a_rate_of_its_own():
    found = converted("bert", without(TABLE, "classifier_dropout")).config
    assert isinstance(found, EncoderOnlyConfig)
    assert found.head_dropout == 0.2


def test_the_padding_may_be_token_0():
    assert converted("bert", {**TABLE, "pad_token_id": 0}).pad_id == 0


@pytest.mark.parametrize("name", NEEDED)
def test_a_size_has_no_default(name):
    refused("bert", without(TABLE, name), f"'{name}' is missing")


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("position_embedding_type", "relative_key", "absolute"),
        ("is_decoder", True, False),
        ("add_cross_attention", True, False),
        ("tie_word_embeddings", False, True),
        ("hidden_act", "mish", "relu"),
    ],
)
def test_what_would_change_the_output_is_refused(name, wrong, right):
    refused("bert", {**TABLE, name: wrong}, f"{name} = {wrong!r} is not supported")
    assert converted("bert", {**TABLE, name: right}).config == CONFIG


def test_roberta_has_one_padding_token():
    refused("roberta", {**NEEDED, "pad_token_id": 0}, "pad_token_id = 0 is not supported", "only 1 is")


def test_what_changes_no_output_is_accepted():
    poolers = ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head", "type")
    idle = dict.fromkeys(("directionality", "model_max_length", *(f"pooler_{each}" for each in poolers)), 1)
    assert converted("bert", TABLE | idle).config == CONFIG


@pytest.mark.parametrize("prefix", FAMILY_OF)
@pytest.mark.parametrize(
    ("suffix", "head"),
    [
        ("ForMaskedLM", "masked_language_model"),
        ("ForPreTraining", "masked_language_model"),
        ("ForSequenceClassification", "classification"),
        ("ForTokenClassification", "tokens"),
        ("ForQuestionAnswering", "spans"),
        ("Model", "none"),
    ],
)
def test_the_class_of_transformers_gives_the_head_and_back(prefix, suffix, head):
    family = FAMILY_OF[prefix]
    names = {"dim": 8, "n_heads": 4, "n_layers": 3, "hidden_dim": 7} if family == "distilbert" else {}
    table = {**(names or NEEDED), "vocab_size": 20, **LABELS, "architectures": [prefix + suffix]}
    found = converted(family, table)
    assert isinstance(found.config, EncoderOnlyConfig)
    assert found.config.head == head
    assert found.labels == (("bad", "good") if head in ("classification", "tokens") else ())
    again = FAMILIES[family].write(found.config, found.labels)["architectures"]
    assert again == [prefix + suffix.replace("ForPreTraining", "ForMaskedLM")]


@pytest.mark.parametrize("name", ["BertForNextSentencePrediction", "RobertaModel", "BertLMHeadModel"])
def test_a_class_of_another_family_or_task_is_refused(name):
    with pytest.raises(FolderError, match=f"the head of class {name} is not supported") as caught:
        converted("bert", {**TABLE, "architectures": [name]})
    assert "use BertModel, or a class that ends in ForMaskedLM" in caught.value.hint


@pytest.mark.parametrize("prefix", ["bert", "roberta"])
def test_a_pooler_is_used_if_the_file_has_one(prefix):
    found = converted(prefix, NEEDED, {f"{prefix}.pooler.dense.weight"})
    assert isinstance(found.config, EncoderOnlyConfig)
    assert (found.config.head, found.config.pooler) == ("pooled", True)
    both = converted(prefix, TABLE | {"architectures": None}, {"pooler.dense.weight"}).config
    assert isinstance(both, EncoderOnlyConfig)
    assert both.head == "none"


@pytest.mark.parametrize(
    ("labels", "head", "names"),
    [
        ({"num_labels": 3}, "classification", ("LABEL_0", "LABEL_1", "LABEL_2")),
        ({}, "classification", ("LABEL_0", "LABEL_1")),
        (LABELS, "classification", ("bad", "good")),
        ({"id2label": {"0": "score"}}, "regression", ()),
        ({"num_labels": 1}, "regression", ()),
    ],
)
def test_classes_are_named_and_one_class_is_regression(labels, head, names):
    table = {**TABLE, **labels, "architectures": ["BertForSequenceClassification"]}
    found = converted("bert", table)
    assert isinstance(found.config, EncoderOnlyConfig)
    assert (found.config.head, found.config.num_labels, found.labels) == (head, len(names), names)
    written = FAMILIES["bert"].write(found.config, found.labels)
    if head == "regression":
        names = ("LABEL_0",)
    assert written["id2label"] == {str(number): name for number, name in enumerate(names)}
    assert written["label2id"] == {name: number for number, name in enumerate(names)}
    unnamed = FAMILIES["bert"].write(found.config, ())
    assert list(unnamed["id2label"].values()) == [f"LABEL_{number}" for number in range(len(names))]


def test_a_model_without_classes_writes_none():
    assert not {"id2label", "label2id"} & FAMILIES["bert"].write(CONFIG, ()).keys()


def test_one_token_class_is_not_regression():
    table = {**TABLE, "num_labels": 1, "architectures": ["BertForTokenClassification"]}
    with pytest.raises(ConfigError, match="num_labels = 1 does not fit head = 'tokens'"):
        converted("bert", table)


def test_several_classes_for_one_text_are_refused():
    table = {**TABLE, **LABELS, "architectures": ["BertForSequenceClassification"]}
    refused("bert", {**table, "problem_type": "multi_label_classification"}, "problem_type = 'multi_label")
    one_label = {**table, "problem_type": "single_label_classification"}
    assert converted("bert", one_label).labels == ("bad", "good")


def layer(ours: str, *, width: int = 4) -> dict[str, tuple[int, ...]]:
    """Weight and bias of a norm."""
    return {f"{ours}.weight": (width,), f"{ours}.bias": (width,)}


def dense(name: str, rows: int, width: int = 4) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (rows, width), f"{name}.bias": (rows,)}


def encoder(prefix: str, offset: int) -> dict[str, tuple[int, ...]]:
    block, embeddings = f"{prefix}.encoder.layer.0", f"{prefix}.embeddings"
    return {
        f"{embeddings}.word_embeddings.weight": (9, 4),
        f"{embeddings}.position_embeddings.weight": (6 + offset, 4),
        f"{embeddings}.token_type_embeddings.weight": (2, 4),
        **layer(f"{embeddings}.LayerNorm"),
        **dense(f"{block}.attention.self.query", 4),
        **dense(f"{block}.attention.self.key", 4),
        **dense(f"{block}.attention.self.value", 4),
        **dense(f"{block}.attention.output.dense", 4),
        **layer(f"{block}.attention.output.LayerNorm"),
        **dense(f"{block}.intermediate.dense", 7),
        **dense(f"{block}.output.dense", 4, 7),
        **layer(f"{block}.output.LayerNorm"),
    }


BERT_HEADS = {
    "none": {},
    "pooled": dense("bert.pooler.dense", 4),
    "masked_language_model": {
        **dense("cls.predictions.transform.dense", 4),
        **layer("cls.predictions.transform.LayerNorm"),
        "cls.predictions.bias": (9,),
    },
    "classification": {**dense("bert.pooler.dense", 4), **dense("classifier", 3)},
    "regression": {**dense("bert.pooler.dense", 4), **dense("classifier", 1)},
    "tokens": dense("classifier", 3),
    "spans": dense("qa_outputs", 2),
}
ROBERTA_HEADS = {
    **BERT_HEADS,
    "pooled": dense("roberta.pooler.dense", 4),
    "masked_language_model": {
        **dense("lm_head.dense", 4),
        **layer("lm_head.layer_norm"),
        "lm_head.bias": (9,),
    },
    "classification": {**dense("classifier.dense", 4), **dense("classifier.out_proj", 3)},
    "regression": {**dense("classifier.dense", 4), **dense("classifier.out_proj", 1)},
}


def with_head(head: str, **changes: object) -> EncoderOnlyConfig:
    count = 3 if head in ("classification", "tokens") else 0
    activation = "gelu" if head == "masked_language_model" else None
    changes = {"head": head, "num_labels": count, "head_activation": activation, **changes}
    return dataclasses.replace(SMALL, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("head", BERT_HEADS)
def test_the_file_has_the_tensors_of_transformers(head):
    assert shapes("bert", with_head(head)) == encoder("bert", 0) | BERT_HEADS[head]
    roberta = with_head(head, position_offset=2)
    assert shapes("roberta", roberta) == encoder("roberta", 2) | ROBERTA_HEADS[head]


@pytest.mark.parametrize("head", BERT_HEADS)
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_model_comes_back_from_a_folder(family, head, tmp_path):
    changes = {} if family == "bert" else {"position_offset": 2, "head_activation": None}
    config = with_head(head, **changes)
    loaded = random_model(config, tuple("xyz"[: config.num_labels]))
    found = through_folder(loaded, family, tmp_path)
    assert (found.loaded.config, found.loaded.labels) == (config, loaded.labels)
    assert found.unused == ()
    torch.testing.assert_close(outputs(found.loaded), outputs(loaded), rtol=0, atol=0)


def test_a_model_without_token_types_gets_one_of_zeros(tmp_path):
    loaded = random_model(with_head("classification", num_token_types=0))
    again = through_folder(loaded, "bert", tmp_path).loaded
    assert again.config == dataclasses.replace(loaded.config, num_token_types=1)
    assert torch.equal(outputs(again), outputs(loaded))


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize(("pooling", "tokens", "prompt"), [("mean", 5, "query: "), ("max", None, "")])
def test_a_sentence_encoder_comes_back_from_a_folder(pooling, tokens, prompt, normalised, tmp_path):
    config = with_head(
        "pooled",
        pooler=False,
        pooling=pooling,
        normalised=normalised,
        sentence_tokens=tokens,
        sentence_prompt=prompt,
    )
    loaded = random_model(config)
    found = through_folder(loaded, "bert", tmp_path)
    assert found.loaded.config == config
    assert torch.equal(outputs(found.loaded), outputs(loaded))
    plain = through_folder(random_model(with_head("pooled")), "bert", tmp_path / "plain")
    assert not (tmp_path / "plain" / "bert" / "modules.json").exists()
    assert plain.loaded.config == with_head("pooled")


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_names_of_a_model_without_a_head_lack_the_prefix(family):
    bare = ("embeddings.a", "encoder.a", "transformer.a", "pooler.a")
    others = (f"{family}.embeddings.b", "classifier.embeddings.b")
    tensors = {name: torch.zeros(0) for name in (*bare, *others)}
    changes = [*FAMILIES[family].old_names(tensors), *FAMILIES[family].renames]
    assert list(renamed(tensors, changes)) == [*(f"{family}.{name}" for name in bare), *others]


def test_norms_of_tensorflow_are_known():
    old = {"bert.a.LayerNorm.gamma": torch.zeros(0), "bert.a.LayerNorm.beta": torch.zeros(0)}
    assert list(renamed(old, FAMILIES["bert"].renames)) == [
        "bert.a.LayerNorm.weight",
        "bert.a.LayerNorm.bias",
    ]
