"""TEXT and --input: a text with the name of a file or a model is noted; a dash is standard input."""

import importlib
import re

import pytest

from regard.cli import run
from regard.cli.text_command import check_text, lines_of
from regard.errors import UserError
from regard.verbs.translate import translate
from tests.warm_process import start_python


@pytest.mark.parametrize(
    ("text", "lines"), [("", [""]), ("a\n", ["a"]), ("a\n\n", ["a", ""]), ("\na\nb", ["", "a", "b"])]
)
def test_a_line_end_after_the_last_line_begins_no_other(text, lines):
    assert lines_of(text) == lines


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a file, a model, a run and another folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_text("1 2\n", "utf-8")
    for name, file in (("model", "config.json"), ("runs/one", "recipe.toml"), ("other", "x")):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / file).write_text("", "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "option"),
    [("lines.txt", "--input"), ("en-de", "--model"), ("model", "--model"), ("runs/one", "--model")],
)
def test_a_text_with_the_name_of_a_file_or_a_model_is_noted(text, option, folder, capsys):
    check_text(text)
    assert re.fullmatch(rf"'{text}' is taken as a text; {option} {text} .*\n", capsys.readouterr().err)


@pytest.mark.parametrize("text", ["other", "runs", "Where is it?", "", "x" * 5000, "a\0b", None, ()])
def test_any_other_text_is_not(text, folder, capsys):
    check_text(text)
    assert capsys.readouterr() == ("", "")


def test_each_of_several_texts_is_noted(folder, capsys):
    check_text(("lines.txt", "hello", "model"))
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_command_that_reads_no_files_notes_models_alone(folder, capsys):
    check_text("lines.txt", reads=False)
    assert capsys.readouterr().err == ""
    check_text("model", reads=False)
    assert "--model model" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["a", "", ("a", "b")])
def test_a_text_and_a_file_at_once_are_refused(text):
    with pytest.raises(UserError, match="both PROMPT and --input are given"):
        check_text(text, "lines.txt", name="PROMPT")


@pytest.mark.parametrize(
    "command",
    [
        ["translate"],
        ["look", "--text"],
        *([each] for each in ("summarize", "generate", "tag", "embed", "fill")),
    ],
    ids=lambda command: command[0],
)
def test_each_command_that_takes_a_text_notes_it(command, folder, capsys):
    run([*command, "en-de", "--model", "other"])  # no model, so it ends before it computes
    assert "'en-de' is taken as a text; --model en-de uses this model\n" in capsys.readouterr().err


def test_the_note_is_not_in_the_output(folder, untrained, capsys):
    assert run(["translate", "lines.txt", "--model", str(untrained)]) == 0
    found = capsys.readouterr()
    assert "taken as a text" in found.err
    assert "taken as a text" not in found.out


@pytest.mark.parametrize("given", [["-"], ["--input", "-"], []])
def test_a_dash_is_standard_input(given, untrained, monkeypatch, capsys):
    process = start_python(["-m", "regard", "translate", *given, "--model", untrained])
    found, errors = process.communicate(b"1 2\n3\n", timeout=120)
    assert process.returncode == 0, errors
    assert found.decode() == "".join(translate(line, model=untrained) + "\n" for line in ("1 2", "3"))


@pytest.mark.parametrize("given", [["Hi", "--input", "-"], ["-", "--input", "lines.txt"]])
@pytest.mark.parametrize("command", ["translate", "summarize", "generate", "tag", "embed", "fill"])
def test_a_dash_beside_a_text_or_a_file_is_refused(folder, given, command, capsys):
    assert run([command, *given, "--model", "/no/model"]) == 2
    assert "and --input are given" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["translate", "summarize", "generate", "tag", "embed", "fill", "classify"]
)
def test_each_command_that_takes_a_text_takes_a_dash(command):
    module = importlib.import_module(f"regard.cli.{command}")
    for words in (["-"], ["--input", "-"]):
        with module.command.make_context(command, [*words, "--model", "x"]) as context:
            text = context.params.get("text", context.params.get("prompt"))
            assert text in (None, ())
            assert context.params["input"] is None
