"""`regard fill`: a line for each prediction of each masked token."""

import json

import pytest

from regard.cli import run
from regard.verbs.fill import Filler, output_lines


@pytest.fixture(scope="module")
def model(their_encoder):
    return str(their_encoder("BertForMaskedLM")[0])


def test_each_guess_is_a_line(capsys, model, tmp_path):
    lines = ["Paris is the [MASK] of France.", "", "a <mask> film [MASK]"]
    (tmp_path / "texts").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    given = ["fill", "--model", model, "--top", "3"]
    expected = "".join(output_lines(each) for each in Filler(model, top=3)(lines))
    assert run([*given, "--input", str(tmp_path / "texts")]) == 0
    assert capsys.readouterr().out == expected
    assert [line.split("\t")[:2] for line in expected.splitlines()] == [
        [line, mask] for line, mask in (("1", "1"), ("3", "1"), ("3", "2")) for _ in range(3)
    ]
    assert run([*given, "\n".join(lines)]) == 0
    assert capsys.readouterr().out == expected
    assert run([*given, lines[2], "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert (reported["text"], [len(guesses) for guesses in reported["masks"]]) == (lines[2], [3, 3])


def test_mistakes_are_one_error_and_one_hint(capsys, model, their_encoder, tmp_path):
    asked = {
        "both TEXT and --input": ["x", "--input", "y", "--model", model],
        "text 1 has no masked token": ["a film", "--model", model],
        "it has no trained head": ["a [MASK]", "--model", str(their_encoder("DistilBertModel")[0])],
        "no such file": ["--input", str(tmp_path / "nothing"), "--model", model],
        "--top is 0, but must be at least 1": ["a [MASK]", "--top", "0", "--model", model],
    }
    capsys.readouterr()  # what saving a folder tells
    for words, arguments in asked.items():
        assert run(["fill", *arguments]) == 2
        shown = capsys.readouterr()
        error, hint = shown.err.splitlines()
        assert shown.out == ""
        assert words in error
        assert hint.startswith("hint: ")
