"""Text regression, from files on disk to a model that predicts the numbers."""

import pytest

from regard.errors import DataError, RecipeError
from regard.models.build import build_model
from regard.verbs.classify import classify
from regard.verbs.shared.settings import recipe_from
from regard.verbs.tasks import regression
from regard.verbs.train import train
from regard.weights.model_folder import load_model

RECIPE = """
name = "prices"
[task]
kind = "regression"
[data.train]
file = "train.tsv"
format = "tsv"
[data.test]
file = "train.tsv"
format = "tsv"
[tokenizer]
kind = "words"
vocab_size = 40
[model]
preset = "small"
d_model = 16
num_heads = 2
d_ff = 32
num_layers = 1
dropout = 0.0
attention_dropout = 0.0
head_dropout = 0.0
[batches]
batch_tokens = 200
[training]
max_steps = 120
validate_every = 40
save_every = 40
best_metric = "mean_absolute_error"
[training.schedule]
learning_rate = 0.01
warmup_steps = 10
"""
THINGS = {"pen": 900.0, "book": 1000.0, "lamp": 1100.0}


def texts(count: int) -> str:
    names = list(THINGS)
    return "".join(f"the {names[n % 3]} number {n % 7}\t{THINGS[names[n % 3]]}\n" for n in range(count))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.tsv").write_text(texts(90))
    (tmp_path / "prices.toml").write_text(RECIPE)
    return tmp_path


def prepared(folder, run="run", **sections):
    table = {
        "name": "prices",
        "task": {"kind": "regression", **sections.get("task", {})},
        "data": {"train": {"file": "train.tsv", "format": "tsv"}, **sections.get("data", {})},
        "tokenizer": {"kind": "words", "vocab_size": 40},
        "model": {"preset": "small", "d_model": 16, "num_heads": 2},
    }
    source = recipe_from(table, "", folder, "recipe")
    return regression.prepare(source, folder / run, say=lambda text: None)


def test_training_gives_a_model_that_predicts_the_numbers(folder, monkeypatch):
    """In their own unit, also far from 0."""
    monkeypatch.chdir(folder)
    result = train("prices.toml", threads=1)
    assert result.metrics["mean absolute error"] < 25
    assert result.metrics["Pearson's r"] > 0.9
    config = load_model(result.model).config
    assert config.label_mean == pytest.approx(1000, abs=20)
    assert classify("the pen number 3", model=result.model) == pytest.approx(900, abs=40)


def test_predicting_the_mean_gives_a_loss_of_one(folder):
    task = prepared(folder)
    mean, std = task.config.label_mean, task.config.label_std
    valid = [float(text.labels[0]) for text in task._valid]

    model = build_model(task.config, seed=1).eval()
    for parameter in model.head.output.parameters():
        parameter.data.zero_()  # the model predicts the mean of the training texts for any input
    found = task.validate(model)
    assert found["loss"] == pytest.approx(sum((value - mean) ** 2 for value in valid) / len(valid) / std**2)
    assert found["loss"] == pytest.approx(1, abs=0.5)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (texts(5) + "the cup\tnan\n", r"train\.tsv:6: 'nan' is not a finite number"),
        (texts(5) + "the cup\t \n", r"train\.tsv:6: no label"),
        (texts(5) + "the cup\tdear\n", r"train\.tsv:6: 'dear' is not a finite number"),
        ("a\t1\nb\t1\n", "the same number"),
    ],
)
def test_labels_that_are_not_numbers_are_named(folder, content, words):
    (folder / "train.tsv").write_text(content)
    with pytest.raises(DataError, match=words):
        prepared(folder)


def test_settings_that_cannot_work_are_refused(folder):
    with pytest.raises(RecipeError, match="word_dropout"):
        prepared(folder, task={"word_dropout": 2.0})
    with pytest.raises(RecipeError, match="valid_share"):
        prepared(folder, data={"valid_share": 0.0})
