"""A file of each kind becomes a recipe that trains, and what it validates on is never trained on."""

import json
import re
import tomllib

import pytest

import regard
from regard.errors import DataError, RecipeError
from regard.verbs.new import new
from regard.verbs.proposals.columns import roles_of
from regard.verbs.proposals.language_model import CHARACTER_RECIPE, MAX_BYTES_BY_CHARACTER, PIECE_RECIPE
from regard.verbs.shared.settings import load_recipe
from regard.verbs.tasks.task import settings_of_test_data
from regard.verbs.train import train
from regard.weights.model_folder import load_model

GOOD, BAD = ("good", "fine", "great", "lovely"), ("bad", "poor", "awful", "dull")
NOUNS = ("film", "book", "song", "play", "cast", "plot", "tune", "tale")
FEW = ["training.max_steps=4", "training.validate_every=4", "model.d_model=16", "model.d_ff=16"]
TASKS = ("classification", "regression", "tagging", "language_model")


def texts(count=160):
    """Texts, all different, with a class and a number."""
    for number in range(count):
        good = number % 2
        word = (BAD, GOOD)[good][number // 2 % 4]
        text = f"the {NOUNS[number % 8]} number {number}, of the {NOUNS[number % 7]}, is {word}"
        yield text, ("negative", "positive")[good], good + number / 1000


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def corpus(folder, task):
    """A file of the task, and what it is recognised by."""
    match task:
        case "classification":
            rows = [f'"{text}",{label}' for text, label, _ in texts()]
            return write(folder / "labels.csv", ["review,verdict", *rows])
        case "regression":
            return write(folder / "grades.jsonl", [json.dumps({"t": t, "n": n}) for t, _, n in texts()])
        case "tagging":
            words = [
                f"{word}\t{'NOUN' if word in NOUNS else 'X'}"
                for text, *_ in texts()
                for word in [*text.split(), ""]
            ]
            return write(folder / "words.txt", [line if line[0] != "\t" else "" for line in words])
    return write(folder / "book.txt", [text for text, *_ in texts()])


def answer(task, model):
    match task:
        case "tagging":
            return regard.tag("the film is good", model=model)
        case "language_model":
            return regard.generate("the film", model=model, max_new_tokens=4)
    return regard.classify("the film is good", model=model)


@pytest.mark.parametrize("task", TASKS)
def test_a_file_is_recognised_trained_on_and_used(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written = new(corpus(tmp_path, task), out="my.toml")
    assert written.task == task
    assert written.train > written.valid > 0
    result = train(written.recipe, overrides=FEW, threads=1)
    assert answer(task, result.model)


@pytest.mark.parametrize("task", TASKS)
def test_each_key_of_a_proposal_is_commented(task, tmp_path):
    text = new(corpus(tmp_path, task), out=tmp_path / "my.toml").recipe.read_text("utf-8")
    settings = [line for line in text.splitlines() if re.match(r"\w+ = ", line) and "description" not in line]
    assert [line for line in settings if not re.search(r"  # \w| # \w", line)] == []
    assert tomllib.loads(text)["task"]["kind"] == task


@pytest.mark.parametrize("task", TASKS)
def test_the_user_s_files_are_used_and_nothing_is_held_out(task, tmp_path):
    places = [tmp_path / part for part in ("train", "valid", "test")]
    for place in places:
        place.mkdir()
    files = [corpus(place, task) for place in places]
    alone = new(files[0], out=tmp_path / "alone.toml")
    written = new(files[0], valid=files[1], test=[files[2]], out=tmp_path / "my.toml")
    assert written.train == written.valid == written.test
    assert written.train == pytest.approx(alone.train + alone.valid, abs=4)
    assert load_recipe(written.recipe).recipe.data.test


def test_texts_are_held_out_of_each_class_in_any_order_and_never_trained_on(tmp_path):
    rows = [f"{label} {text}" for text, _, number in [*texts(), *texts(20)] for label in [int(number)]]
    first = new(write(tmp_path / "a.txt", rows), out=tmp_path / "a.toml")
    second = new(write(tmp_path / "b.txt", rows[::-1]), out=tmp_path / "b.toml")
    parts = {
        part: (first.data / f"{part}.tsv").read_text("utf-8").splitlines()[1:] for part in ("train", "valid")
    }
    assert sorted(parts["valid"]) == sorted((second.data / "valid.tsv").read_text("utf-8").splitlines()[1:])
    assert not set(parts["train"]) & set(parts["valid"])
    assert len(parts["train"]) + len(parts["valid"]) == len(rows)
    assert {line[-1] for line in parts["valid"]} == {"0", "1"}


def test_a_class_that_occurs_once_is_trained_on_and_reported(tmp_path):
    rows = [f"{text}\t{label}" for text, label, _ in texts()]
    written = new(write(tmp_path / "a.tsv", [*rows, "odd one\tother"]), out=tmp_path / "a.toml")
    assert written.notes[0] == "1 label occurs once, too rarely to be learned: 'other'"
    assert "odd one\tother" in (written.data / "train.tsv").read_text("utf-8")


def test_rows_that_cannot_be_used_are_counted_or_named(tmp_path):
    rows = [f'"{text}",{label}' for text, label, _ in texts()]
    path = write(
        tmp_path / "a.csv", ["text,label", *rows, "no label,", ",positive", '"two\nlines, one\ttab",positive']
    )
    written = new(path, out=tmp_path / "a.toml")
    assert written.skipped == {"empty": 1, "without a label": 1}
    assert written.train + written.valid == len(rows) + 1
    assert "two lines, one tab\tpositive" in "".join(
        (written.data / f"{part}.tsv").read_text("utf-8") for part in ("train", "valid")
    )
    write(tmp_path / "b.csv", ["text,label", *rows, "a text, with a comma,positive"])
    with pytest.raises(DataError, match=r"b\.csv:162: 3 columns, but line 1 has 2"):
        new(tmp_path / "b.csv", out=tmp_path / "b.toml")


def test_labels_that_are_all_the_same_are_refused(tmp_path):
    one = write(tmp_path / "one.tsv", [f"{text}\tsame" for text, *_ in texts()])
    with pytest.raises(DataError, match="all texts have one label, 'same'"):
        new(one, task="classification", columns=["0", "1"], out=tmp_path / "r.toml")
    named = write(tmp_path / "named.csv", ["text,label", *(f'"{text}",same' for text, *_ in texts())])
    with pytest.raises(DataError, match=r"named\.csv: all values of the column 'label' are 'same'"):
        new(named, task="classification", out=tmp_path / "r.toml")
    rows = write(tmp_path / "two.tsv", [f"{text}\t{label}" for text, label, _ in texts()])
    other = write(tmp_path / "other.tsv", ["x\tpositive", "y\tpositiv"])
    with pytest.raises(DataError, match=r"other\.tsv:2: no training text has the label 'positiv'") as caught:
        new(rows, valid=other, columns=["0", "1"], out=tmp_path / "r.toml")
    assert caught.value.hint == "did you mean 'positive'?"
    with pytest.raises(DataError, match=r"two\.tsv:1: 'negative' is not a number"):
        new(rows, task="regression", out=tmp_path / "r.toml")


def test_a_very_frequent_class_is_judged_by_macro_f1(tmp_path):
    rows = [f"{text}\t{'spam' if number % 10 == 0 else 'ham'}" for number, (text, *_) in enumerate(texts())]
    written = new(write(tmp_path / "a.tsv", rows), out=tmp_path / "a.toml")
    assert load_recipe(written.recipe).recipe.training.best_metric == "macro_f1"


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_texts_that_were_held_out_are_learned_by_a_second_run(tmp_path, task):
    rows = [f"{text}\t{number % 2}" for number, (text, *_) in enumerate(texts())]
    file, valid = write(tmp_path / "a.tsv", rows), write(tmp_path / "b.tsv", rows)
    alone = new(file, task=task, out=tmp_path / "a.toml")
    assert load_recipe(alone.recipe).recipe.training.refit
    assert "the second learns them too" in alone.recipe.read_text()
    beside = new(file, valid=valid, task=task, out=tmp_path / "b.toml")
    assert not load_recipe(beside.recipe).recipe.training.refit
    assert "never trained on" in beside.recipe.read_text()


@pytest.mark.parametrize(
    ("names", "task", "columns"),
    [
        (("id", "text", "label"), "classification", ("text", "label")),
        (("label", "title", "text"), "classification", ("text", "label")),
        (("review_text", "url", "overall_rating"), "classification", ("review_text", "overall_rating")),
        (("source", "target", "domain"), "translation", ("source", "target")),
        (("de", "en"), "translation", ("de", "en")),
        (("text", "price"), "regression", ("text", "price")),
        (("id", "text"), "language_model", ("text",)),
    ],
)
def test_columns_are_detected_by_their_content_and_names(names, task, columns, tmp_path):
    def cell(name, number):
        match name:
            case "id":
                return number
            case "label" | "overall_rating" | "domain":
                return ("a", "b", "c")[number % 3]
            case "price":
                return number * 37 % 100 + 0.5
        return f"{name} of the record {number}"

    rows = [{name: cell(name, number) for name in names} for number in range(60)]
    from regard.data.tables import open_table

    table = open_table(write(tmp_path / "t.jsonl", map(json.dumps, rows)), "jsonl")
    roles = roles_of(table, None, ())
    assert (roles.task, roles.columns) == (task, columns)


def test_columns_that_cannot_be_detected_are_listed(tmp_path):
    rows = [json.dumps({"t": f"text number {i}", "x": "ab"[i % 2], "y": "cd"[i % 2]}) for i in range(60)]
    with pytest.raises(DataError, match="'t' \\(text\\), 'x' \\(label\\), 'y' \\(label\\)") as caught:
        new(write(tmp_path / "t.jsonl", rows), out=tmp_path / "r.toml")
    assert "--columns TEXT,LABEL" in caught.value.hint
    assert new(tmp_path / "t.jsonl", columns=["t", "y"], out=tmp_path / "r.toml").task == "classification"


def test_the_end_of_a_text_is_held_out_and_records_by_their_digest(tmp_path):
    book = corpus(tmp_path, "language_model")
    whole = new(book, out=tmp_path / "whole.toml")
    parts = [(whole.data / f"{part}.txt").read_text("utf-8") for part in ("train", "valid")]
    assert "".join(parts) == book.read_text("utf-8")
    assert parts[0].endswith("\n")
    records = write(tmp_path / "r.jsonl", [json.dumps({"text": text}) for text, *_ in texts()])
    several = new(records, out=tmp_path / "several.toml")
    held, kept = (
        set((several.data / f"{part}.jsonl").read_text("utf-8").splitlines()) for part in ("valid", "train")
    )
    assert len(held) == 16
    assert held | kept == set(records.read_text("utf-8").splitlines())
    assert not held & kept


@pytest.mark.parametrize("published", [CHARACTER_RECIPE, PIECE_RECIPE], ids=lambda each: each.recipe)
def test_a_language_model_is_validated_with_half_a_block_of_context(published, tmp_path, monkeypatch):
    limit = 0 if published is PIECE_RECIPE else MAX_BYTES_BY_CHARACTER
    monkeypatch.setattr("regard.verbs.proposals.language_model.MAX_BYTES_BY_CHARACTER", limit)
    written = new(corpus(tmp_path, "language_model"), out=tmp_path / "r.toml")
    recipe = load_recipe(written.recipe).recipe
    assert recipe.task.block == published.table()["task"]["block"]
    assert 2 * recipe.validation.context == recipe.task.block


def test_columns_of_one_name_are_chosen_by_number(tmp_path):
    rows = [f'"{text}",{"ab"[i % 2]},{label}' for i, (text, label, _) in enumerate(texts())]
    file = write(tmp_path / "a.csv", ["text,label,label", *rows])
    written = new(file, columns=["0", "2"], out=tmp_path / "a.toml")
    lines = (written.data / "train.tsv").read_text("utf-8").splitlines()[1:]
    assert {line.rpartition("\t")[2] for line in lines} == {"negative", "positive"}
    with pytest.raises(DataError, match="a column is named twice"):
        new(file, columns=["text", "text"], out=tmp_path / "r.toml")


def test_a_file_of_a_word_and_its_label_per_line_has_no_columns_to_choose(tmp_path):
    with pytest.raises(RecipeError, match="the label is the last column") as caught:
        new(corpus(tmp_path, "tagging"), columns=["1"], out=tmp_path / "r.toml")
    assert "leave out --columns" in caught.value.hint


def test_held_out_texts_that_are_trained_on_and_texts_with_several_labels_are_reported(tmp_path):
    rows = [f"{text}\t{label}" for text, label, _ in texts()]
    written = new(
        write(tmp_path / "a.tsv", rows), valid=write(tmp_path / "b.tsv", rows[:30]), out=tmp_path / "a.toml"
    )
    [warning] = written.warnings
    assert warning.startswith("30 of 30 texts of ")
    assert "b.tsv are training texts" in warning
    text = rows[0].partition("\t")[0]
    both = write(tmp_path / "c.tsv", [*rows, f"{text}\tpositive", f"{text}\tnegative"])
    [warning] = new(both, columns=["0", "1"], out=tmp_path / "c.toml").warnings
    assert warning.startswith("1 different text occurs with several labels")
    assert not new(tmp_path / "a.tsv", out=tmp_path / "d.toml").warnings


def test_a_csv_file_is_not_read_as_another_format(tmp_path, untrained):
    source = load_recipe(new(corpus(tmp_path, "classification"), out=tmp_path / "a.toml").recipe)
    loaded = load_model(untrained)
    with pytest.raises(RecipeError, match=r"x\.csv is a CSV file, but the model's recipe reads .* 'tsv'"):
        settings_of_test_data(source.recipe, loaded, "x.csv", tmp_path)
    assert settings_of_test_data(source.recipe, loaded, "x.tsv", tmp_path)[0].file == "x.tsv"


def test_several_labels_of_a_text_are_refused_by_their_name_and_other_lists_are_not_used(tmp_path):
    def written(**more):
        file = tmp_path / "a.jsonl"
        records = [{"text": text, **more} for text, *_ in texts()]
        file.write_text("".join(f"{json.dumps(each)}\n" for each in records))
        return file

    for settings in ({}, {"task": "classification"}, {"columns": ["text", "labels"]}):
        with pytest.raises(DataError, match="under 'labels' are lists: a text has one label") as raised:
            new(written(labels=["a", "b"]), out=tmp_path / "a.toml", **settings)
    assert "--task language_model" in raised.value.hint
    reading = new(written(links=["a"]), out=tmp_path / "a.toml").reading
    assert reading == "language_model (column text; not used: links (lists))"
