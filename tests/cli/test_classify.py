"""`regard classify`: a line out for each line in, as soon as it can be."""

import json

import pytest

from regard.cli import run
from regard.verbs.classify import Classifier, output_lines
from tests.warm_process import start_python

LABELS = ("negative", "positive")


@pytest.fixture(scope="module")
def model(encoder_folder):
    return encoder_folder("classification", LABELS)


def test_whoever_writes_a_line_and_waits_gets_its_answer(model):
    process = start_python(["-m", "regard", "classify", "--model", model, "--threads", "1"])
    for line in ("a good film", "", "bad"):
        process.stdin.write(f"{line}\n".encode())
        process.stdin.flush()
        [expected] = Classifier(model)([line])
        assert process.stdout.readline().decode() == output_lines(expected)
    rest, reported = process.communicate(b"bad\xff\n", timeout=60)
    assert (rest, process.returncode) == (b"", 2)
    assert reported.decode().startswith("error: standard input:4: not UTF-8")


@pytest.mark.parametrize("text", ["a good film", "", "bad\n\ngood"])
def test_a_text_as_argument_is_classified_line_by_line(capsys, model, text):
    assert run(["classify", text, "--model", str(model)]) == 0
    expected = [output_lines(each) for each in Classifier(model)(text.split("\n"))]
    assert capsys.readouterr().out == "".join(expected)


def test_a_file_is_classified_line_by_line_with_as_many_classes_as_asked_for(capsys, model, tmp_path):
    (tmp_path / "texts").write_text("a good film\n\nbad\n")
    assert run(["classify", "--input", str(tmp_path / "texts"), "--model", str(model), "--top", "2"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["1", "1", "3", "3"]
    assert {line[1] for line in lines} == set(LABELS)
    assert run(["classify", "--input", str(tmp_path / "texts"), "--model", str(model), "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["label"] is None for record in records] == [False, True, False]


def test_mistakes_are_one_error_and_one_hint(capsys, encoder_folder, model, tmp_path):
    fresh = encoder_folder("classification", LABELS, fresh_head=True)
    asked = {
        "both TEXT and --input": ["x", "--input", "y", "--model", str(model)],
        "is untrained": ["x", "--model", str(fresh)],
        "no such file": ["--input", str(tmp_path / "nothing"), "--model", str(model)],
        "classify needs a model": ["x"],
    }
    for words, arguments in asked.items():
        assert run(["classify", *arguments]) == 2
        error, hint = capsys.readouterr().err.splitlines()
        assert words in error
        assert hint.startswith("hint: ")
    assert run(["classify", "x", "--model", str(fresh), "--allow-fresh-head"]) == 0
