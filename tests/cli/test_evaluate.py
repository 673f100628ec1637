"""`regard evaluate` as it is typed, for a model that classifies; translators are in test_verbs.py."""

import json

import pytest

from regard.cli import run

RECIPE = """
name = "films"
[task]
kind = "classification"
[data.train]
file = "train.txt"
format = "labelled"
[data.test]
file = "test.txt"
format = "labelled"
[tokenizer]
vocab_size = 60
[model]
preset = "small"
d_model = 16
d_ff = 32
num_layers = 1
[training]
max_steps = 2
save_every = 2
validate_every = 2
"""


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    (folder / "films.toml").write_text(RECIPE)
    for part, count in (("train", 40), ("test", 10)):
        lines = [f"{('bad', 'good')[i % 2]} the film number {i}\n" for i in range(count)]
        (folder / f"{part}.txt").write_text("".join(lines))
    assert run(["train", str(folder / "films.toml"), "--out", str(folder / "run"), "--threads", "1"]) == 0
    return folder


@pytest.fixture
def printed(capsys, monkeypatch, films):
    monkeypatch.chdir(films)

    def call(*arguments: str, code: int = 0):
        capsys.readouterr()
        assert run(["evaluate", *arguments]) == code
        return capsys.readouterr()

    return call


def test_classes_are_scored_and_the_confusion_matrix_is_shown(printed):
    output = printed("--model", "run").out.splitlines()
    assert output[0].endswith("best: 10 texts")
    assert [line.split()[0] for line in output[1:3]] == ["accuracy", "macro-F1"]
    assert "columns: predicted classes" in output[4]
    first = [line.split()[0] for line in output[5:] if line]
    assert first == ["bad", "bad", "good", "precision", "accuracy", "class", "bad", "good"]
    assert output[-3].split() == ["class", "count", "predicted", "precision", "recall", "F1"]
    assert output[-1].split()[:2] == ["good", "5"]


def test_programs_get_json(printed):
    found = json.loads(printed("--model", "run", "--data", "train.txt", "--json").out)
    assert found["examples"] == "40 texts"
    assert found["labels"] == ["bad", "good"]
    assert sum(map(sum, found["confusion"])) == 40
    assert [(each["label"], each["count"]) for each in found["classes"]] == [("bad", 20), ("good", 20)]
    assert sum(each["predicted"] for each in found["classes"]) == 40
    macro = sum(each["f1"] for each in found["classes"]) / 2
    assert macro == pytest.approx(found["scores"][1]["value"])
    assert {"name", "value", "low", "high", "signature"} <= set(found["scores"][0])


@pytest.mark.parametrize(
    ("typed", "error", "hint"),
    [
        (["--model", "run", "--data", "nowhere.txt"], "nowhere.txt", ""),
        (["--model", "run", "--data", "films.toml"], "films.toml:1: no label", ""),
        (["--model", "nowhere"], "nowhere", ""),
        (["--model", "run", "--src", "test.txt"], "--ref FILE is missing", "reference"),
        (["--model", "run", "--ref", "test.txt"], "--src FILE is missing", "source"),
        (["--src", "a", "--ref", "b", "--data", "c"], "--data and --src", "one of them"),
        (["--model", "run", "--metric", "run"], "--src FILE is missing", "--metric"),
        (["--src", "test.txt", "--metric", "run"], "not a model that scores translations", "regard"),
    ],
)
def test_a_mistake_is_one_error_and_one_hint(printed, typed, error, hint):
    lines = printed(*typed, code=2).err.splitlines()
    assert error in lines[-2]
    assert lines[-2].startswith("error: ")
    assert lines[-1].startswith("hint: ")
    assert hint in lines[-1]
