"""The long check of exports: what it documents, expects and calls wrong; small models of every kind."""

import dataclasses

import pytest

import regard
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import UserError
from regard.exports.gguf_tokenizer import gguf_tokenizer
from regard.exports.refusal import NotExpressible
from regard.exports.sentencepiece_file import sentencepiece_file
from regard.models.build import MODELS, build_model, config_class
from regard.weights.model_folder import LoadedModel
from tests.exports.engine_models import small_model
from tests.exports.settings_table import KINDS_TABLE
from tests.long.export_check import is_done, judged, spread
from tests.long.export_expectations import COLUMNS, expected_refusals
from tests.long.export_models import RECIPES, SUBJECTS, Subject
from tests.long.export_table import tables

TOKENIZERS = {"words", "wordpunct", "characters", "bytes", "bpe", "bytebpe", "wordpiece", "unigram"}
SIZES = {  # of the kinds that no target has
    "recurrent": {"src_vocab_size": 20, "tgt_vocab_size": 20, "d_model": 8, "d_embedding": 8},
    "vision": {"num_labels": 3, "d_model": 8, "num_heads": 2, "d_ff": 8, "num_layers": 1},
    "gat": {"num_features": 4, "num_labels": 3, "d_model": 8, "num_heads": 2},
    "graph_transformer": {"num_features": 4, "num_labels": 3, "d_model": 8, "num_heads": 2, "d_ff": 8},
    "conformer": {
        "num_features": 4,
        "num_labels": 3,
        "d_model": 8,
        "num_heads": 2,
        "d_ff": 8,
        "num_layers": 1,
    },
    "speech_to_text": {
        "vocab_size": 20,
        "d_model": 8,
        "num_heads": 2,
        "num_encoder_heads": 2,
        "d_ff": 8,
        "d_ff_encoder": 8,
        "num_encoder_layers": 1,
        "num_decoder_layers": 1,
        "max_source_positions": 4,
    },
    "translation_metric": {
        "vocab_size": 20,
        "reads": ("source",),
        "joined": False,
        "d_model": 8,
        "num_heads": 2,
        "d_ff": 8,
        "num_layers": 1,
        "hidden_sizes": (4,),
    },
    "image_text": {
        "vocab_size": 20,
        "image_size": 8,
        "patch_size": 4,
        "d_model": 8,
        "d_text": 8,
        "text_heads": 2,
        "d_ff_text": 8,
        "text_layers": 1,
        "d_image": 8,
        "image_heads": 2,
        "d_ff_image": 8,
        "image_layers": 1,
    },
}
READS_TEXT = ("recurrent", "speech_to_text", "translation_metric", "image_text")


def test_the_table_has_every_kind_of_model_and_tokeniser():
    assert {*KINDS_TABLE} == {*MODELS.own} | TOKENIZERS


def model_of(kind):
    """A small model of a kind that no target has."""
    config = config_class(kind).from_dict(SIZES[kind])
    own = small_model("decoder_only").tokenizers if kind in READS_TEXT else None
    return LoadedModel(
        model=build_model(config, seed=1).eval(), config=config, tokenizer_pair=own, labels=(), generation={},
        path=small_model("decoder_only").path,
    )  # fmt: skip


@pytest.mark.parametrize("target", COLUMNS)
@pytest.mark.parametrize("kind", SIZES)
def test_other_kinds_of_models_are_refused_by_every_target(kind, target, tmp_path):
    assert KINDS_TABLE[kind][COLUMNS.index(target)] == "refused"
    out = tmp_path / ("out.argosmodel" if target == "argos" else "out")
    with pytest.raises(UserError, match=kind) as error:
        regard.export(model_of(kind), to=target, out=out, languages="en-de" if target == "argos" else None)
    assert error.value.hint
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("kind", sorted(TOKENIZERS))
def test_a_tokeniser_is_refused_as_documented(kind):
    size = 300 if kind.startswith("byte") else 60
    own = train_tokenizer(
        ["a good film, the bad film"] * 3, kind, TokenizerSettings(kind=kind, vocab_size=size)
    )
    refusals = {"argos": refusal(sentencepiece_file, own), "gguf": refusal(gguf_tokenizer, own, begins=False)}
    for target, found in refusals.items():
        assert KINDS_TABLE[kind][COLUMNS.index(target)] == ("equal" if found is None else "refused"), target
        assert found is None or (found.setting, found.value) == ("kind", kind)


def refusal(write, tokenizer, **named):
    """The error that refuses a tokeniser; None if it is written."""
    try:
        write(tokenizer, **named)
    except NotExpressible as error:
        return error
    return None


def test_every_recipe_is_checked():
    assert {path.stem for path in RECIPES.glob("*.toml")} <= {each.recipe for each in SUBJECTS}
    assert len({each.name for each in SUBJECTS}) == len(SUBJECTS)


def test_what_the_tables_expect_of_a_model():
    subject = Subject(name="a", recipe="shakespeare-char-cpu")
    config = small_model("decoder_only", "llama", window=8).config
    assert expected_refusals(subject, config, "ctranslate2") == ["window = 8"]
    assert expected_refusals(subject, config, "onnx") == expected_refusals(subject, config, "hf") == []
    config = small_model("decoder_only", "llama", output_bias=True, logit_softcap=3.0).config
    assert {*expected_refusals(subject, config, "hf")} == {"output_bias = True", "logit_softcap = 3.0"}
    words = Subject(name="b", recipe="reverse")
    config = small_model("encoder_decoder").config
    assert expected_refusals(words, config, "argos") == ["kind = 'words'"]
    assert expected_refusals(words, config, "gguf") == ["encoder_decoder"]
    alibi = dataclasses.replace(config, positions="alibi")
    assert "positions = 'alibi'" in expected_refusals(words, alibi, "ctranslate2")


PASSED = {
    "state": "passed",
    "texts": 9,
    "asked": 10,
    "greedy": 1.0,
    "beam": 0.995,
    "largest": 2e-5,
    "seconds": 1.0,
}
REFUSED = {
    "state": "refused", "setting": "window", "value": "8", "why": "X cannot compute window = 8",
    "hint": "train it without", "seconds": 0.1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("record", "expected", "wrong"),
    [
        (PASSED, [], False),
        (PASSED, ["window = 8"], True),
        (REFUSED, ["window = 8"], False),
        (REFUSED, [], True),
        (REFUSED, ["positions = 'alibi'"], True),
        (REFUSED | {"hint": ""}, ["window = 8"], True),
        ({"state": "failed", "why": "window = 8", "hint": "", "seconds": 1.0}, ["window = 8"], True),
        ({"state": "died", "why": "KeyError: 1", "seconds": 1.0}, [], True),
    ],
)
def test_a_result_is_wrong_unless_it_is_documented(record, expected, wrong):
    line, found = judged(record, expected)
    assert found == wrong
    assert line.startswith("WRONG") == wrong


def test_what_is_there_with_as_many_texts_is_done():
    subject = Subject(name="a", recipe=None, texts=lambda: ["a"] * 50)
    assert is_done(REFUSED, subject, 1000)
    assert not is_done(PASSED, subject, 1000)
    assert is_done(PASSED | {"asked": 50}, subject, 1000)
    assert not is_done({"state": "failed"}, subject, 1000)
    assert spread(list("abcdefgh"), 4) == list("aceg")
    assert spread(["a"], 4) == ["a"]


def test_the_tables_have_shares_refusals_and_what_was_not_run():
    labels = {"state": "passed", "texts": 3, "labels": 0.9999, "largest": 1e-6, "seconds": 1.0}
    text = tables(
        {"one": {"ctranslate2": PASSED, "gguf": REFUSED}, "two": {"onnx": labels, "onnx int8": labels}}
    )
    assert "| one | 100 / 99.5 | not run | not run | not run | `window` | not run |" in text
    assert "| two | not run | 99.9 | not run | not run | not run | not run |" in text
    assert "| one | 9 | 2e-05 | not run |  | not run |  |" in text
    assert "| two | 3 | 1e-06 | not run |  | 99.9 | 1e-06 |" in text
