"""`regard tag`: a label a word, of lines or of CoNLL-U, through files and pipes."""

import gzip
import json

import pytest

from regard.cli import run
from regard.verbs.tag import Tagger, output_lines, tag_file
from tests.warm_process import start_python

LABELS = ("ADJ", "NOUN", "VERB")
CONLLU = "# a\n" + "".join(
    f"{number}\t{form}\t_\t_\t_\t_\t_\t_\t_\t_\n{after}"
    for number, form, after in ((1, "the", ""), (2, "cat", "\n"), (1, "sat", "\n"))
)


@pytest.fixture(scope="module")
def model(encoder_folder):
    return encoder_folder("tokens", LABELS)


def started(model, *arguments):
    return start_python(["-m", "regard", "tag", "--model", model, "--threads", "1", *arguments])


def test_the_help_says_what_a_word_is(capsys, model):
    assert run(["tag", "--help"]) == 0
    assert "`Don't` is one word here" in " ".join(capsys.readouterr().out.split())
    assert run(["tag", "Don't.", "--model", str(model)]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.split("\n")] == ["Don't", ".", "", ""]


def test_whoever_writes_a_sentence_and_waits_gets_its_labels(model):
    process = started(model)
    for line in ("the cat.", "", "a film"):
        process.stdin.write(f"{line}\n".encode())
        process.stdin.flush()
        [expected] = Tagger(model)([line])
        for part in output_lines(expected).splitlines(keepends=True):
            assert process.stdout.readline().decode() == part
    assert process.communicate(timeout=60) == (b"", b"")


def test_conllu_goes_through_a_pipe_sentence_by_sentence(model):
    process = started(model, "--conllu")
    first, second = CONLLU.split("\n\n")[:2]
    process.stdin.write(f"{first}\n\n".encode())
    process.stdin.flush()
    came = [process.stdout.readline().decode() for _ in range(4)]
    assert came[0] == "# a\n"
    assert all(line.split("\t")[3] in LABELS for line in came[1:3])
    assert came[3] == "\n"
    rest, reported = process.communicate(f"{second}\n".encode(), timeout=60)
    assert (rest, process.returncode) == (b"", 2)
    assert "standard input:5: the last sentence is not ended" in reported.decode()


def test_a_file_called_conllu_is_conllu(capsys, model, tmp_path):
    (tmp_path / "a.conllu").write_text(CONLLU)
    assert run(["tag", "--input", str(tmp_path / "a.conllu"), "--model", str(model)]) == 0
    found = capsys.readouterr().out
    assert found.count("\n") == CONLLU.count("\n")
    assert sum(line.split("\t")[3] in LABELS for line in found.splitlines() if "\t" in line) == 3


@pytest.mark.parametrize("name", ["a.bio", "a.CONLL.gz"])
def test_a_file_of_words_in_columns_brings_its_own_words(capsys, model, tmp_path, name):
    content = b"-DOCSTART- O\n\nthe O\ncat. B-X\n\nsat O\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert run(["tag", "--input", str(tmp_path / name), "--model", str(model)]) == 0
    found = capsys.readouterr().out
    assert [line.split("\t")[0] for line in found.split("\n")] == ["the", "cat.", "", "sat", "", ""]
    assert [[word for word, _ in each] for each in tag_file(tmp_path / name, model=model)] == [
        ["the", "cat."],
        ["sat"],
    ]


def test_texts_are_tagged_line_by_line(capsys, model, tmp_path):
    (tmp_path / "a.txt").write_text("the cat.\n\n")
    assert run(["tag", "the cat.\n\n", "--model", str(model)]) == 0
    of_text = capsys.readouterr().out
    assert run(["tag", "--input", str(tmp_path / "a.txt"), "--model", str(model)]) == 0
    assert capsys.readouterr().out == of_text
    assert [line.split("\t")[0] for line in of_text.split("\n")] == ["the", "cat", ".", "", "", ""]
    assert run(["tag", "the cat.", "--words", "--model", str(model), "--json"]) == 0
    words = json.loads(capsys.readouterr().out)["words"]
    assert [word["word"] for word in words] == ["the", "cat."]


def test_mistakes_are_one_error_and_one_hint(capsys, model, tmp_path):
    (tmp_path / "a.conllu").write_text("1\ta\n\n")
    asked = {
        "both TEXT and --input": ["x", "--input", "y"],
        "TEXT does not go with CoNLL-U": ["x", "--conllu"],
        "--json does not go with CoNLL-U": ["--conllu", "--json"],
        "a.conllu:1: 2 columns": ["--input", str(tmp_path / "a.conllu")],
    }
    for words, arguments in asked.items():
        assert run(["tag", *arguments, "--model", str(model)]) == 2
        error, hint = capsys.readouterr().err.splitlines()
        assert words in error
        assert hint.startswith("hint: ")
