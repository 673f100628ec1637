"""Masked language modelling, from files on disk to a model that predicts better than frequencies."""

import numpy as np
import pytest

from regard.errors import DataError, RecipeError
from regard.models.encoder_only import EncoderOnly
from regard.verbs.evaluate import evaluate
from regard.verbs.shared.settings import recipe_from
from regard.verbs.tasks import masked_language_model
from regard.verbs.train import train
from regard.weights.model_folder import load_model

PHRASES = ("one two three four five", "red green blue", "sun moon stars sky", "up down left right")
RECIPE = """
name = "phrases"
[task]
kind = "masked_language_model"
share = 0.2
[data]
valid_share = 0.2
[data.train]
file = "train.txt"
document = "line"
[data.test]
file = "test.txt"
format = "labelled"
[tokenizer]
vocab_size = 200
[model]
preset = "modern"
d_model = 32
num_heads = 2
d_ff = 64
num_layers = 1
dropout = 0.0
attention_dropout = 0.0
[batches]
batch_tokens = 300
[training]
max_steps = 150
label_smoothing = 0.0
validate_every = 75
save_every = 75
[training.schedule]
learning_rate = 0.01
warmup_steps = 10
"""


def texts(count, offset=0):
    return [
        f"{PHRASES[n % 4]} and {PHRASES[(n * 7 + n // 3) % 4]} . " * (1 + n % 2)
        for n in range(offset, offset + count)
    ]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.txt").write_text("\n".join(texts(120)) + "\n")
    (tmp_path / "test.txt").write_text("".join(f"0 {text}\n" for text in texts(20, 500)))
    (tmp_path / "phrases.toml").write_text(RECIPE)
    return tmp_path


def prepared(folder, run="run", limit=None, say=lambda text: None, **sections):
    table = {
        "name": "phrases",
        "task": {"kind": "masked_language_model", **sections.get("task", {})},
        "data": {"train": {"file": "train.txt", "document": "line"}, **sections.get("data", {})},
        "tokenizer": {"vocab_size": 200, **sections.get("tokenizer", {})},
        "model": {"preset": "modern", "d_model": 16, "num_heads": 2},
        **{name: sections[name] for name in ("batches", "training") if name in sections},
    }
    source = recipe_from(table, "", folder, "recipe")
    return masked_language_model.prepare(source, folder / run, say=say, limit=limit)


def test_training_predicts_better_than_token_frequencies(folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = train("phrases.toml", threads=1)
    scores = result.metrics
    assert set(scores) == {"masked accuracy", "unigram accuracy", "masked loss", "unigram loss"}
    assert scores["masked accuracy"] > 2 * scores["unigram accuracy"]
    assert scores["masked loss"] < scores["unigram loss"]
    loaded = load_model(result.model)
    assert isinstance(loaded.model, EncoderOnly)
    assert (loaded.config.head, loaded.config.fresh_head) == ("masked_language_model", False)
    assert "by:word" in (result.model / "README.md").read_text()


def test_masked_tokens_are_the_same_in_each_validation_and_change_in_training(folder):
    task = prepared(folder)
    again = prepared(folder)
    for one, other in zip(task._valid, again._valid, strict=True):
        assert np.array_equal(one.ids, other.ids)
    examples, first = task.examples(), np.arange(8)
    assert examples.batch(first, 0).ids.tolist() == examples.batch(first, 0).ids.tolist()
    assert examples.batch(first, 0).ids.tolist() != examples.batch(first, 1).ids.tolist()


def test_long_documents_are_cut_into_parts_without_losing_a_word(folder):
    whole = prepared(
        folder,
        data={
            "train": {"file": "train.txt", "document": "paragraph"},
            "valid_share": 0.5,
            "valid": {"file": "train.txt", "document": "line"},
        },
    )
    parts = prepared(
        folder,
        "parts",
        batches={"max_tokens": 12},
        data={
            "train": {"file": "train.txt", "document": "paragraph"},
            "valid": {"file": "train.txt", "document": "line"},
        },
    )
    assert max(len(text.ids) for text in parts._train[0]()) <= 12
    inner = [
        np.concatenate([text.ids[1:-1] for text in task._train[0]()]).tolist() for task in (whole, parts)
    ]
    assert len(inner[0]) <= len(inner[1])
    assert parts.tokenizer.decode(inner[1]).split() == " ".join(texts(120)).split()


@pytest.mark.parametrize("kind", ["characters", "bytes"])
def test_a_document_without_word_boundaries_is_cut_without_losing_a_token(folder, kind):
    """These tokenisers take a whole document for one word."""
    task = prepared(
        folder,
        task={"whole_words": False},
        tokenizer={"kind": kind, "vocab_size": 300},
        batches={"max_tokens": 12},
        data={"valid": {"file": "train.txt", "document": "line"}},
    )
    parts = task._train[0]()
    assert max(len(text.ids) for text in parts) <= 12
    inner = np.concatenate([text.ids[1:-1] for text in parts]).tolist()
    whole = [task.tokenizer.encode(each) for each in texts(120)]
    assert inner == np.concatenate(whole).tolist()


def test_the_unigram_baseline_is_the_most_frequent_token_and_the_entropy(folder):
    task = prepared(folder)
    ids = np.concatenate([text.ids[1:-1] for text in task._train[0]()])
    counts = np.bincount(ids, minlength=task.tokenizer.vocab_size)
    frequencies = masked_language_model.token_frequencies(task._train[0](), task.tokenizer)
    accuracy, loss = masked_language_model.unigram_baseline(frequencies, ids)
    assert accuracy == pytest.approx(counts.max() / counts.sum())
    share = counts[counts > 0] / counts.sum()
    assert loss == pytest.approx(-(share * np.log(share)).sum(), rel=0.05)


@pytest.mark.parametrize("own", [False, True], ids=["validation held out", "validation of its own"])
def test_evaluation_gives_the_baseline_that_training_gave(folder, own, capsys):
    """If the training texts are gone, the baseline is left out and a note says so."""
    sets = ["training.max_steps=2", "tokenizer.dropout=0.1", "tokenizer.copies=2"]
    if own:
        sets.append('data.valid={file = "test.txt", format = "labelled"}')
    result = train(folder / "phrases.toml", out=folder / "run", overrides=sets, threads=1)
    found = evaluate(model=folder / "run", threads=1)
    names = ["masked accuracy", "unigram accuracy", "masked loss", "unigram loss"]
    assert [score.name for score in found.scores] == names
    assert {score.name: score.value for score in found.scores} == result.metrics
    (folder / "train.txt").unlink()
    capsys.readouterr()
    found = evaluate(model=folder / "run", threads=1)
    assert [score.name for score in found.scores] == ["masked accuracy", "masked loss"]
    assert "no unigram baseline, as the training texts cannot be read" in capsys.readouterr().err


def test_labels_of_labelled_texts_are_ignored(folder):
    task = prepared(folder, data={"train": {"file": "test.txt", "format": "labelled"}})
    assert "0" not in task.tokenizer.decode(np.concatenate([text.ids for text in task._train[0]()]).tolist())


def test_a_dry_run_keeps_some(folder):
    assert len(prepared(folder, limit=5).examples()) == 5


@pytest.mark.parametrize(
    ("sections", "error", "words"),
    [
        ({"task": {"share": 1.0}}, RecipeError, "share"),
        ({"tokenizer": {"kind": "characters"}}, RecipeError, "whole_words = true"),
        ({"tokenizer": {"kind": "bytes"}}, RecipeError, "whole_words = true"),
        ({"data": {"valid_share": 1.5}}, RecipeError, "valid_share"),
        ({"data": {"valid": {"file": "nothing.txt", "document": "line"}}}, DataError, "no such file"),
        ({"data": {"valid": {"file": "empty.txt", "document": "line"}}}, DataError, "data.valid has no text"),
    ],
)
def test_settings_and_files_that_cannot_be_used_are_refused(folder, sections, error, words):
    (folder / "empty.txt").write_text("\n")
    with pytest.raises(error, match=words):
        prepared(folder, **sections)
