"""What a table's columns hold decides its task; what no task reads is refused by name."""

import json

import pytest

from regard.data.tables import open_table
from regard.errors import DataError
from regard.verbs.new import new
from regard.verbs.proposals.columns import Roles, roles_of

COUNT = 60


def table_of(folder, **columns):
    """A table of named columns; each is a function of the record's number."""
    rows = [{name: cell(number) for name, cell in columns.items()} for number in range(COUNT)]
    path = folder / "t.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return open_table(path, "jsonl")


def text(number):
    return f"the film number {number} is what it is"


def reply(number):
    return f"nobody has seen the film {number}"


def few(number):
    return "ab"[number % 2]


@pytest.mark.parametrize("name", ["label", "intent"])
@pytest.mark.parametrize("task", [None, "classification"])
def test_a_column_called_label_may_have_many_classes_for_its_texts(tmp_path, name, task):
    table = table_of(tmp_path, text=text, **{name: lambda number: f"class {number % 25}"})
    assert roles_of(table, task, ()) == Roles(task="classification", columns=("text", name))


def test_a_text_and_its_label_are_never_a_translation(tmp_path):
    table = table_of(tmp_path, text=text, label=reply)
    with pytest.raises(DataError, match="cannot detect its task"):
        roles_of(table, None, ())


def test_whole_numbers_with_a_decimal_point_are_classes(tmp_path):
    classes = table_of(tmp_path, text=text, label=lambda number: f"{number % 2}.0")
    assert roles_of(classes, None, ()).task == "classification"
    halves = table_of(tmp_path, text=text, label=lambda number: number % 6 / 2)
    assert roles_of(halves, None, ()).task == "regression"


def test_numbers_with_words_for_a_missing_value_are_numbers(tmp_path):
    table = table_of(tmp_path, text=text, price=lambda number: number / 7 if number % 5 else "NA")
    assert roles_of(table, None, ()).task == "regression"


@pytest.mark.parametrize("cell", ["1,{:03}.50", "$ {}.99", "1 {:03}", "{},5", "{} %"])
@pytest.mark.parametrize("columns", [(), ("text", "price")])
def test_numbers_in_another_notation_are_named_and_not_translated(tmp_path, cell, columns):
    table = table_of(tmp_path, text=text, price=cell.format)
    with pytest.raises(
        DataError, match="in the column 'price' is a number that is not read as one"
    ) as caught:
        roles_of(table, None, columns)
    assert "--task translation" in caught.value.hint
    assert roles_of(table, "translation", columns).columns == ("text", "price")


@pytest.mark.parametrize(
    ("first", "second", "label"),
    [("premise", "hypothesis", few), ("sentence1", "sentence2", lambda number: number / 7), ("a", "b", few)],
)
def test_pairs_of_texts_with_a_label_are_refused_by_name(tmp_path, first, second, label):
    table = table_of(tmp_path, **{first: text, second: reply, "score": label})
    for task in (None, "classification", "regression"):
        with pytest.raises(DataError, match=f"'{first}' and '{second}' are two texts with 'score'") as caught:
            roles_of(table, task, ())
        assert "join both texts in one column" in caught.value.hint
        with pytest.raises(DataError, match=r"three columns are named .* reads one text"):
            roles_of(table, task, (first, second, "score"))
    assert roles_of(table, None, (second, "score")).task != "translation"
    assert roles_of(table, "translation", ()).columns == (first, second)


@pytest.mark.parametrize("names", [("source", "target"), ("en", "de"), ("question1", "question2")])
def test_two_texts_without_a_label_or_of_two_languages_are_a_translation(tmp_path, names):
    score = {} if names[0] == "question1" else {"score": lambda number: number / 7}
    table = table_of(tmp_path, **dict(zip(names, (text, reply), strict=True)), **score)
    assert roles_of(table, None, ()) == Roles(task="translation", columns=names)


def labelled(folder, labels):
    path = folder / "a.csv"
    rows = (f"{text(number)},{labels[number % len(labels)]}" for number in range(COUNT))
    path.write_text("\n".join(["text,label", *rows]))
    return new(path, out=folder / "a.toml")


def test_labels_that_differ_in_case_or_spaces_alone_are_named_with_their_counts(tmp_path):
    written = labelled(tmp_path, ["Yes", "yes", "no", "No way", "Noway"])
    [warning] = written.warnings
    assert "'No way' 12, 'Noway' 12; 'Yes' 12, 'yes' 12" in warning
    assert "texts of each class: 'Yes' 12, 'yes' 12, 'no' 12" in written.notes[0]


def test_words_for_a_missing_value_are_named_and_left_out_beside_numbers(tmp_path):
    [warning] = labelled(tmp_path, ["NA", "None", "yes", "no"]).warnings
    assert warning.startswith("'NA' 15, 'None' 15: ")
    (tmp_path / "numbers").mkdir()
    written = labelled(tmp_path / "numbers", ["0.0", "1.0", "NA"])
    assert (written.task, written.warnings) == ("classification", ())
    assert written.skipped == {"without a label": 20}


def test_a_regression_of_few_numbers_says_that_they_may_be_classes(tmp_path):
    [note] = labelled(tmp_path, ["0.5", "1.0", "1.5"]).notes
    assert note == "there are 3 different numbers; with --task classification each is a class"
