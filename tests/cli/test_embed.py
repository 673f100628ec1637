"""`regard embed`: a line of numbers for each line in, or the lines in the order of their likeness."""

import json

import pytest

from regard.cli import run
from regard.verbs.embed import Embedder, output_lines

LINES = ["Paris is the capital of France.", "", "a bad film", "a good film"]


@pytest.fixture(scope="module")
def model(sentence_encoder):
    return str(sentence_encoder[0])


@pytest.fixture
def file(tmp_path):
    (tmp_path / "texts").write_text("".join(f"{line}\n" for line in LINES), "utf-8")
    return str(tmp_path / "texts")


def test_each_text_is_a_line_of_numbers(capsys, model, file):
    expected = "".join(output_lines(each) for each in Embedder(model)(LINES))
    assert run(["embed", "--model", model, "--input", file]) == 0
    assert capsys.readouterr().out == expected
    assert run(["embed", "--model", model, LINES[0] + "\n\n", *LINES[2:]]) == 0
    assert capsys.readouterr().out == expected
    assert [len(line.split("\t")) for line in expected.splitlines()] == [16] * 4
    assert run(["embed", "--model", model, "--input", file, "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["text"] for record in records] == LINES
    assert all(len(record["vector"]) == 16 for record in records)


def test_lines_are_ranked_by_their_likeness(capsys, model, file):
    arguments = ["embed", "--model", model, "--input", file, "--similar-to", "A BAD FILM"]
    assert run(arguments) == 0
    ranked = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert ranked[0] == ["1.0000", "3", "a bad film"]
    assert sorted(line[1] for line in ranked) == ["1", "2", "3", "4"]
    assert run([*arguments, "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [str(record["line"]) for record in records] == [line[1] for line in ranked]


def test_mistakes_are_one_error_and_one_hint(capsys, model, file, tmp_path, untrained):
    asked = {
        "both TEXT and --input": ["x", "--input", file, "--model", model],
        "not a model that embeds texts": ["x", "--model", str(untrained)],
        "no such file": ["--input", str(tmp_path / "nothing"), "--model", model],
        "embed needs a model": ["x"],
    }
    for words, arguments in asked.items():
        assert run(["embed", *arguments]) == 2
        shown = capsys.readouterr()
        error, hint = shown.err.splitlines()
        assert shown.out == ""
        assert words in error
        assert hint.startswith("hint: ")
