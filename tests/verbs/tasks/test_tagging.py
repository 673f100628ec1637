"""Labels of words, from CoNLL-U files to a scored model folder."""

import json
import math

import numpy as np
import pytest

from regard.data.texts import EncodedText
from regard.errors import DataError, RecipeError, UserError
from regard.evaluation.classification import confusion, macro_f1, table_interval
from regard.verbs.evaluate import evaluate
from regard.verbs.shared.settings import recipe_from
from regard.verbs.tasks import tagging, tagging_scores
from regard.verbs.tasks.tagging_scores import _f1_interval, evaluate_tags
from regard.verbs.tasks.text import segmentations
from regard.verbs.train import train
from regard.weights.model_folder import load_model

LEXICON = {
    "DET": ("the", "a", "every"),
    "NOUN": ("cat", "dog", "house", "river", "unbelievability"),
    "VERB": ("sees", "likes", "finds"),
    "PUNCT": (".", "!"),
}
ORDER = ("DET", "NOUN", "VERB", "DET", "NOUN", "PUNCT")
RECIPE = """
name = "parts"
[task]
kind = "tagging"
word_dropout = 0.05
[data]
valid_share = 0.2
[data.train]
file = "train.conllu"
[data.test]
file = "test.conllu"
[tokenizer]
vocab_size = 60
[model]
preset = "modern"
d_model = 16
num_heads = 2
d_ff = 32
num_layers = 1
dropout = 0.0
[batches]
batch_tokens = 300
[training]
max_steps = 60
label_smoothing = 0.0
validate_every = 30
save_every = 30
best_metric = "accuracy"
[training.schedule]
learning_rate = 0.01
warmup_steps = 5
"""


def row(number, form, upos, feats="_"):
    return f"{number}\t{form}\t_\t{upos}\tX\t{feats}\t_\t_\t_\t_\n"


def sentences(count, offset=0):
    blocks = []
    for number in range(offset, offset + count):
        words = [
            (LEXICON[part][(number + place) % len(LEXICON[part])], part) for place, part in enumerate(ORDER)
        ]
        rows = "".join(row(place, *word) for place, word in enumerate(words, start=1))
        blocks.append(f"# sent_id = {number}\n{rows}\n")
    return "".join(blocks)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.conllu").write_text(sentences(100))
    (tmp_path / "test.conllu").write_text(sentences(20, 200))
    (tmp_path / "parts.toml").write_text(RECIPE)
    return tmp_path


def prepared(folder, run="run", limit=None, **sections):
    table = {
        "name": "parts",
        "task": {"kind": "tagging", **sections.get("task", {})},
        "data": {
            "train": {"file": "train.conllu"},
            "test": {"file": "test.conllu"},
            **sections.get("data", {}),
        },
        "tokenizer": sections.get("tokenizer", {"vocab_size": 60}),
        "model": {"preset": "modern", "d_model": 16, "num_heads": 2},
        **{name: sections[name] for name in ("batches", "training") if name in sections},
    }
    source = recipe_from(table, "", folder, "recipe")
    return tagging.prepare(source, folder / run, say=lambda text: None, limit=limit)


def test_training_gives_a_model_that_knows_its_labels(folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = train("parts.toml", threads=1)
    assert result.metrics["accuracy"] > 95
    loaded = load_model(result.model)
    assert loaded.labels == ("DET", "NOUN", "PUNCT", "VERB")
    assert not loaded.config.fresh_head
    assert json.loads((result.model / "words.json").read_text()) == {"column": "upos"}
    card = (result.model / "README.md").read_text()
    assert "words:120|sentences:20|column:upos" in card
    (folder / "test.bio").write_text("the DET\ncat NOUN\n")
    found = evaluate(model=result.model, data="test.bio")
    assert "|column:last|" in found.scores[0].signature, "a file of BIO labels has no column upos"
    with pytest.raises(UserError, match="data of the task tagging have none to choose"):
        evaluate(model=result.model, data="test.bio", columns=("1",))


def test_intervals_are_wider_where_the_words_of_a_sentence_are_right_or_wrong_together():
    """Sentences that are right or wrong as a whole are fewer independent observations than their words."""
    labels = np.arange(4000) % 2
    sentence = np.arange(4000) // 40
    predictions = np.where(sentence % 2 == 0, labels, 1 - labels)
    apart = _f1_interval(labels, predictions, np.arange(4000), 2, resamples=200)
    together = _f1_interval(labels, predictions, sentence, 2, resamples=200)
    assert together[1] - together[0] > 4 * (apart[1] - apart[0])
    assert apart == pytest.approx(table_interval(confusion(labels, predictions, 2), macro_f1), abs=0.005)
    assert together == _f1_interval(labels, predictions, sentence, 2, resamples=200)


def test_both_scores_are_resampled_by_sentences(monkeypatch):
    """With two classes of the same accuracy, accuracy and macro-F1 are nearly the same number."""
    sentence = np.repeat(np.arange(100), 40)
    labels = np.arange(4000) % 2
    predictions = np.where(sentence % 2 == 0, labels, 1 - labels)
    monkeypatch.setattr(
        tagging_scores,
        "predictions_and_labels",
        lambda *_: (np.split(predictions, 200), np.split(labels, 200), 0.0),
    )
    texts = [
        EncodedText(ids=np.zeros(2, np.int32), words=np.zeros(2, np.int32), labels=part, line=1 + number // 2)
        for number, part in enumerate(np.split(labels, 200))
    ]
    right, f1 = evaluate_tags(None, texts, ("A", "B"), 0, "upos").scores
    assert "words:4000|sentences:100" in f1.signature
    assert (f1.low, f1.high) == pytest.approx((right.low, right.high), abs=1.0)
    assert f1.high - f1.low > 15


def test_each_word_of_a_long_sentence_is_predicted_once(folder):
    long = "".join(row(number, "unbelievability", "NOUN") for number in range(1, 201)) + "\n"
    (folder / "test.conllu").write_text(long)
    task = prepared(folder, batches={"max_tokens": 32})
    assert len(task._test) > 10
    assert all(len(text.ids) <= 32 for text in task._test)
    assert sum(len(text.labels) for text in task._test) == 200


def test_all_epochs_have_as_many_texts_where_segmentations_cut_a_sentence_differently(folder):
    """BPE-dropout makes sentences longer, so they would be cut into more windows."""
    tokenizer = {"vocab_size": 60, "dropout": 0.5, "copies": 6}
    task = prepared(folder, batches={"max_tokens": 20}, tokenizer=tokenizer)
    sizes = [
        len(task._texts("train", encode))
        for encode in segmentations(task.tokenizer, task.recipe.tokenizer, 1)
    ]
    assert len(set(sizes)) > 1
    examples = task.examples()
    everything, words = (
        np.arange(len(examples)),
        sum(map(len, (each.labels for each in task._parts["train"]))),
    )
    for epoch in range(6):
        assert len(examples.lengths(everything, epoch)[0]) == len(examples)
        batch = examples.batch(everything, epoch)
        assert len(batch.labels) == words
        assert batch.lengths.max() <= 20


def test_validation_is_a_share_of_the_sentences(folder):
    task = prepared(folder, data={"valid_share": 0.3})
    assert len(task.examples()) == 70
    assert len(task._valid) == 30
    whole = prepared(folder, "other", data={"valid": {"file": "test.conllu"}})
    assert len(whole.examples()) == 100


def test_a_dry_run_keeps_some(folder):
    assert len(prepared(folder, limit=7).examples()) == 7


@pytest.mark.parametrize(
    ("part", "content", "words"),
    [
        ("test", row(1, "hm", "INTJ") + "\n", "data.test: no word has a label of the training data"),
        ("train", sentences(1) + row(1, "hm", "_") + "\n", r"train\.conllu:9: a word without UPOS"),
        ("train", sentences(1) + "1\thm\n\n", r"train\.conllu:9: 2 columns"),
        ("train", sentences(1) + "\n", r"train\.conllu:9: a sentence without a word"),
        ("train", row(1, "hm", "INTJ") + "\n", "one label, 'INTJ'"),
        ("train", "", "no text has a label"),
        ("test", "", "data.test has no sentence"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(folder, part, content, words):
    (folder / f"{part}.conllu").write_text(content)
    with pytest.raises(DataError, match=words) as caught:
        prepared(folder)
    assert caught.value.hint


def test_a_label_that_is_not_in_the_training_data_counts_as_wrong_and_is_counted(folder, capsys):
    """In validation, in the test at the end, and in `regard evaluate`; it adds nothing to the loss."""
    (folder / "test.conllu").write_text(sentences(20, 200) + 2 * (row(1, "the", "INTJ") + "\n"))
    result = train(
        folder / "parts.toml",
        out=folder / "run",
        overrides=['data.valid={file = "test.conllu"}', "training.max_steps=30"],
        threads=1,
    )
    printed = capsys.readouterr().err
    assert (
        "validation: 22 sentences, 122 words; 2 words have a label that is not in the training data"
        in printed
    )
    assert 90 < result.metrics["accuracy"] <= 100 * 120 / 122
    records = map(json.loads, (folder / "run" / "metrics.jsonl").read_text().splitlines())
    [validated] = [record for record in records if record["kind"] == "validation"]
    assert validated["accuracy"] == pytest.approx(result.metrics["accuracy"])
    assert math.isfinite(validated["loss"])
    found = evaluate(model=folder / "run", threads=1)
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 1
    assert "2 words have a label" in warnings[0]
    assert {score.name: score.value for score in found.scores} == result.metrics
    right, f1 = found.scores
    assert "unseen:2" in right.signature
    assert np.sum(found.confusion) == 120
    assert right.value == pytest.approx(100 * np.trace(found.confusion) / 122)
    assert f1.value <= 100 * 4 / 5, "labels that are not in the training data are one class with an F1 of 0"


def test_another_column_can_be_learned(folder):
    (folder / "train.conllu").write_text(sentences(4) + row(1, "hm", "INTJ", "A=b") + "\n")
    assert prepared(folder, data={"column": "feats"}).labels == ("A=b", "_")
    files = prepared(folder, "other", data={"column": "feats"}).files
    assert json.loads(files["words.json"]) == {"column": "feats"}


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"task": {"word_dropout": -0.1}}, "word_dropout"),
        ({"data": {"valid_share": 1.0}}, "valid_share"),
        ({"data": {"column": "form"}}, "column"),
    ],
)
def test_settings_that_cannot_work_are_refused(folder, sections, words):
    with pytest.raises(RecipeError, match=words):
        prepared(folder, **sections)
