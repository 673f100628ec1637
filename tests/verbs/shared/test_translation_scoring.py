"""A verb scores with the tokeniser for the references, reports it, and refuses a missing one early."""

import pytest

from regard.errors import DataError
from regard.evaluation import tokenizers
from regard.verbs.compare import compare
from regard.verbs.evaluate import evaluate
from regard.verbs.shared.translation_scoring import scoring_for
from regard.verbs.train import train
from regard.weights.model_folder import load_model

JAPANESE = [f"猫{i}匹はマットの上に座っていました。" for i in range(40)]
RECIPE = """
name = "small"
[data.train]
source = "train.en"
target = "train.ja"
[data.valid]
source = "train.en"
target = "train.ja"
[data.test]
source = "train.en"
target = "train.ja"
[tokenizer]
kind = "characters"
[model]
preset = "tiny"
d_model = 16
num_heads = 2
d_ff = 32
num_encoder_layers = 1
num_decoder_layers = 1
[training]
max_steps = 2
save_every = 2
validate_every = 2
[decoding]
beam_size = 1
max_length = 5
"""


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """Only the dependencies of regard are installed."""
    monkeypatch.setattr(tokenizers, "find_spec", lambda name: None)


@pytest.fixture
def recipe(tmp_path):
    for name, lines in (
        ("train.en", [f"{i} cats sat on the mat." for i in range(40)]),
        ("train.ja", JAPANESE),
    ):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


def test_another_tokeniser_than_13a_is_reported():
    messages = []
    assert scoring_for([JAPANESE], "auto", messages.append).tokenize == "char"
    assert scoring_for([JAPANESE], "zh", messages.append).tokenize == "zh"
    assert scoring_for([["A cat."]], "auto", messages.append).tokenize == "13a"
    [line] = messages
    assert "char" in line
    assert "Japanese" in line
    assert "sacrebleu[ja]" in line


def test_training_scores_by_the_script_of_the_targets(recipe, tmp_path, capsys):
    train(recipe, out=tmp_path / "run", threads=1)
    assert "BLEU with tokeniser char: the references are written in Japanese" in capsys.readouterr().err
    card = (load_model(tmp_path / "run").path / "README.md").read_text("utf-8")
    assert "tok:char" in card


def test_training_refuses_a_tokeniser_that_is_not_installed_before_it_begins(recipe, tmp_path):
    with pytest.raises(DataError, match="ja-mecab needs MeCab and ipadic"):
        train(recipe, out=tmp_path / "run", threads=1, overrides=["validation.tokenize=ja-mecab"])


def test_verbs_refuse_a_missing_tokeniser_before_they_translate(untrained, recipe):
    files = {"src": recipe.with_name("train.en"), "ref": recipe.with_name("train.ja")}
    with pytest.raises(DataError, match="ko-mecab needs"):
        evaluate(model=untrained / "absent", **files, tokenize="ko-mecab")
    with pytest.raises(DataError, match="ko-mecab needs"):
        compare(list(files.values()), ref=files["ref"], tokenize="ko-mecab")


def test_chrf_comes_first_where_there_are_no_spaces(untrained, recipe):
    found = evaluate(model=untrained, src=recipe.with_name("train.en"), ref=recipe.with_name("train.ja"))
    assert [score.name for score in found.scores] == ["chrF2++", "BLEU", "chrF2", "TER"]
    assert "tok:char" in found.scores[1].signature
