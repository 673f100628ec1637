"""Tables, scores and confusion matrices: plain lines off a terminal, within its width on one."""

from dataclasses import dataclass

import pytest

from regard import console
from regard.console.tables import score_text
from tests.console.conftest import uncoloured


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    low: float | None = None
    high: float | None = None
    signature: str = "nrefs:1"
    decimals: int = 2


def test_a_table_off_a_terminal_has_one_line_a_row_and_numbers_to_the_right(plain, capsys):
    console.table("sets", ["name", "bytes"], [["multi[30]k", "1,234"], ["日本", "7"]])
    assert capsys.readouterr().out.splitlines() == [
        "sets",
        "name        bytes",
        "multi[30]k  1,234",
        "日本            7",
    ]


def test_an_empty_table_has_its_heads(plain, capsys):
    console.table("", ["name", "bytes"], [])
    assert capsys.readouterr().out == "name  bytes\n"


def test_a_table_on_a_terminal_holds_all_its_words(terminal, capsys):
    console.table("sets", ["name", "what"], [["multi[30]k", " ".join(f"word{i}" for i in range(40))]])
    shown = uncoloured(capsys.readouterr().out)
    assert "multi[30]k" in shown
    assert "word39" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_scores_are_shown_with_interval_and_signature(plain, capsys):
    console.scores("test", [Score("BLEU", 39.519, 38.1, 40.94), Score("exact match", 98.7)])
    assert capsys.readouterr().out.splitlines() == [
        "test",
        "BLEU 39.52 (38.10 to 40.94)  nrefs:1",
        "exact match 98.7 %  nrefs:1",
    ]


@pytest.mark.parametrize(("value", "text"), [(100.0, "100.0 %"), (99.99, "99.9 %"), (98.7, "98.7 %")])
def test_a_share_is_never_rounded_up_to_what_was_not_reached(value, text):
    assert score_text(Score("exact match", value)) == text


def test_scores_have_the_decimals_that_they_name(plain, capsys):
    console.scores("", [Score("metric", 0.81234, 0.8, 0.82, decimals=4)])
    assert capsys.readouterr().out == "metric 0.8123 (0.8000 to 0.8200)  nrefs:1\n"


def test_a_confusion_off_a_terminal_has_a_row_and_a_column_for_each_class(plain, capsys):
    console.print_confusion(["no", "yes"], [[6, 2], [1, 11]])
    *shown, accuracy = capsys.readouterr().out.splitlines()[2:]
    assert shown[1].endswith("  75.0"), "numbers are set to the right, though one corner is empty"
    assert [line.split() for line in shown] == [
        ["no", "yes", "recall"],
        ["no", "6", "2", "75.0"],
        ["yes", "1", "11", "91.7"],
        ["precision", "85.7", "84.6"],
    ]
    assert accuracy == "accuracy 85.0: 17 of 20; all values in percent"


def test_a_class_that_is_never_predicted_nor_true_has_no_row_and_is_named(plain, capsys):
    console.print_confusion(["a", "b", "c", "d"], [[3, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    shown = capsys.readouterr().out.splitlines()[2:]
    assert [line.split() for line in shown[:4]] == [
        ["a", "c", "recall"],
        ["a", "3", "1", "75.0"],
        ["c", "0", "0", "0.0"],
        ["precision", "100.0", "0.0"],
    ]
    assert shown[5] == "neither occur nor are predicted: b, d"


def test_a_confusion_of_one_class_is_shown_on_the_narrowest_terminal(terminal, capsys):
    console.print_confusion(["a" * 100, "b"], [[3, 0], [0, 0]])
    assert "accuracy 100.0: 3 of 3" in uncoloured(capsys.readouterr().out)


def test_a_confusion_matrix_too_wide_for_the_terminal_names_frequent_errors(terminal, capsys):
    count = 30
    table = [[5 if i == j else 2 * (j == i + 1) for j in range(count)] for i in range(count)]
    console.print_confusion([f"class {i}" for i in range(count)], table)
    shown = uncoloured(capsys.readouterr().out).splitlines()
    assert all(len(line) <= 80 for line in shown)
    [line] = [line for line in shown if line.strip().startswith("class 7 ")]
    assert line.split() == ["class", "7", "7", "71.4", "71.4", "class", "8", "(2)"]
    assert shown[-1].startswith("accuracy 72.1: 150 of 208")
    [last] = [line for line in shown if line.strip().startswith("class 29 ")]
    assert last.split() == ["class", "29", "5", "71.4", "100.0"]


def test_an_end_of_an_interval_just_below_zero_is_printed_as_zero(capsys):
    console.scores("", [Score("BLEU", 0.006, -0.004, 0.02)])
    assert "BLEU 0.01 (0.00 to 0.02)" in capsys.readouterr().out
