"""Classes of texts, from files on disk to a scored model folder."""

import json

import pytest

from regard.data.masking import WordDropout
from regard.errors import ConfigError, DataError, FolderError, RecipeError
from regard.training.objective import LabelCrossEntropy
from regard.verbs.shared.settings import recipe_from
from regard.verbs.tasks import classification
from regard.verbs.train import train
from regard.weights.model_folder import load_model

GOOD, BAD = ("good", "fine", "great", "lovely"), ("bad", "poor", "awful", "dull")
NOUNS = ("film", "book", "song", "play", "cast", "plot")
RECIPE = """
name = "films"
[task]
kind = "classification"
word_dropout = 0.1
[data]
valid_share = 0.2
label_names = { 0 = "negative", 1 = "positive" }
[data.train]
file = "train.txt"
format = "labelled"
[data.test]
file = "test.txt"
format = "labelled"
[tokenizer]
vocab_size = 80
dropout = 0.1
copies = 2
[model]
preset = "small"
d_model = 16
d_ff = 32
num_layers = 1
dropout = 0.0
[batches]
batch_tokens = 200
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


def texts(count: int, offset: int = 0) -> str:
    lines = []
    for number in range(offset, offset + count):
        label = number % 2
        word = (BAD, GOOD)[label][number % 4]
        lines.append(f"{label} the {NOUNS[number % 6]} of the {NOUNS[number % 5]} is {word}\n")
    return "".join(lines)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.txt").write_text(texts(120))
    (tmp_path / "test.txt").write_text(texts(30, 200))
    (tmp_path / "films.toml").write_text(RECIPE)
    return tmp_path


def prepared(folder, run="run", limit=None, say=lambda text: None, **sections):
    table = {
        "name": "films",
        "task": {"kind": "classification", **sections.get("task", {})},
        "data": {
            "train": {"file": "train.txt", "format": "labelled"},
            "test": {"file": "test.txt", "format": "labelled"},
            **sections.get("data", {}),
        },
        "tokenizer": {"vocab_size": 80, **sections.get("tokenizer", {})},
        "model": {"preset": "small", "d_model": 16, "num_heads": 2, **sections.get("model", {})},
        **{name: sections[name] for name in ("batches", "training") if name in sections},
    }
    source = recipe_from(table, "", folder, "recipe")
    return classification.prepare(source, folder / run, say=say, limit=limit)


def test_training_gives_a_model_that_knows_its_classes(folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = train("films.toml", threads=1)
    assert result.metrics["accuracy"] > 90
    assert set(result.metrics) == {"accuracy", "macro-F1"}
    loaded = load_model(result.model)
    assert loaded.labels == ("negative", "positive")
    assert not loaded.config.fresh_head, "training clears it"
    assert json.loads((result.model / "config.json").read_text())["settings"]["fresh_head"] is False
    assert (loaded.config.head, loaded.config.num_labels) == ("classification", 2)
    card = (result.model / "README.md").read_text()
    assert "regard classify" in card
    assert "interval:wilson" in card


def test_validation_holds_out_a_share_of_each_class_and_prints_it(folder):
    messages = []
    task = prepared(folder, say=messages.append, data={"valid_share": 0.25})
    assert len(task.examples()) == 90
    assert any("30 of the training texts" in line for line in messages)
    lines = {text.line for text in task._valid}
    assert len(lines) == 30
    assert len({line % 2 for line in lines}) == 2


def test_other_validation_texts_leave_the_training_texts_whole(folder):
    task = prepared(folder, data={"valid": {"file": "test.txt", "format": "labelled"}})
    assert len(task.examples()) == 120


def test_a_dry_run_reads_everything_and_keeps_some(folder):
    task = prepared(folder, limit=10)
    assert len(task.examples()) == 10
    (folder / "test.txt").write_text(texts(100) + "7 of another class\n")
    with pytest.raises(DataError, match=r"test\.txt:101: label '7'"):
        prepared(folder, "other", limit=10)


def test_class_weights_and_word_dropout_are_used_in_training(folder):
    (folder / "train.txt").write_text(texts(100) + texts(100).replace("\n0", "\n1").replace("0 the", "1 the"))
    task = prepared(folder, task={"class_weights": "balanced", "word_dropout": 0.3})
    objective = task.objective()
    assert isinstance(objective, LabelCrossEntropy)
    assert objective.weights is not None
    assert objective.weights[0] > objective.weights[1]
    assert isinstance(task.examples()._noise, WordDropout)
    plain = prepared(folder, "plain")
    assert plain.objective().weights is None
    assert plain.examples()._noise is None


@pytest.mark.parametrize("kind", ["characters", "bytes"])
def test_word_dropout_is_refused_where_a_text_is_one_word(folder, kind):
    """It would leave a text as it is, or drop all of it."""
    task = prepared(folder, task={"word_dropout": 0.3}, tokenizer={"kind": kind, "vocab_size": 300})
    with pytest.raises(RecipeError, match=f"word_dropout = 0.3, but for tokenizer.kind = '{kind}'"):
        task.examples()


def test_a_class_with_one_example_is_trained_on(folder):
    (folder / "train.txt").write_text(texts(100) + "2 so so\n")
    task = prepared(folder)
    assert task.labels == ("0", "1", "2")
    assert 101 not in {text.line for text in task._valid}


def test_a_text_that_is_too_long_is_cut_at_its_end(folder):
    task = prepared(folder, batches={"max_tokens": 6})
    assert {len(text.ids) for text in task._valid} == {6}
    learned = prepared(folder, "learned", model={"positions": "learned", "max_positions": 5})
    assert {len(text.ids) for text in learned._valid} == {5}


@pytest.mark.parametrize(
    ("part", "content", "words"),
    [
        ("train", "1 good\n1 fine\n", "one label, '1'"),
        ("train", "", "no text has a label"),
        ("train", texts(20) + " nothing before\n", r"train\.txt:21: no label"),
        ("train", texts(20) + "NaN so so\n", r"train\.txt:21: the label is 'NaN'"),
        ("test", "nan so so\n", r"test\.txt:1: the label is 'nan'"),
        ("test", "3 so so\n", r"test\.txt:1: label '3' does not occur in training"),
    ],
)
def test_labels_that_cannot_be_used_are_named(folder, part, content, words):
    (folder / f"{part}.txt").write_text(content)
    with pytest.raises(DataError, match=words) as caught:
        prepared(folder)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("sections", "error", "words"),
    [
        ({"task": {"word_dropout": 1.0}}, RecipeError, "word_dropout"),
        ({"task": {"class_weights": "balance"}}, RecipeError, "class_weights"),
        ({"task": {"class_weights": {"0": 1.0}}}, RecipeError, "no weight for '1'"),
        ({"data": {"valid_share": 0.0}}, RecipeError, "valid_share"),
        ({"data": {"label_names": {"5": "five"}}}, RecipeError, "label_names has '5'"),
        ({"data": {"label_names": {"1": 5}}}, RecipeError, "label_names calls '1'"),
        ({"training": {"best_metric": "bleu"}}, RecipeError, "does not measure"),
        ({"model": {"kind": "encoder_decoder"}}, RecipeError, "model.kind"),
        ({"model": {"head": "tokens"}}, ConfigError, "cannot be set in a recipe"),
        ({"tokenizer": {"joint": False}}, RecipeError, "joint = false has no effect"),
        (
            {"tokenizer": {"kind": "bpe", "joint": False, "target_kind": "words", "min_count": 2}},
            RecipeError,
            "target_kind has no effect",
        ),
        ({"batches": {"max_tokens": 2}}, RecipeError, "max_tokens|no room"),
    ],
)
def test_settings_that_cannot_work_are_refused(folder, sections, error, words):
    with pytest.raises(error, match=words):
        prepared(folder, **sections)


@pytest.mark.parametrize("kind", ["words", "wordpunct"])
def test_the_share_of_unknown_words_is_printed_and_most_are_refused(folder, kind):
    said = []
    prepared(folder, say=said.append, tokenizer={"kind": kind, "min_count": 1})
    [line] = [line for line in said if line.startswith(f"tokeniser: {kind}")]
    assert line.endswith("tokens; 0.0% of the training text's are unknown")
    for settings in ({"min_count": 10_000}, {"vocab_size": 5}):
        with pytest.raises(DataError, match="of the training text's tokens are unknown") as caught:
            prepared(folder, "other", tokenizer={"kind": kind, **settings})
        assert "lower tokenizer.min_count" in caught.value.hint
        assert not (folder / "other" / "tokenizers").exists()


def test_changed_texts_are_refused_when_a_run_resumes(folder):
    prepared(folder)
    prepared(folder)
    (folder / "train.txt").write_text(texts(121))
    with pytest.raises(FolderError, match=r"data\.train"):
        prepared(folder)
