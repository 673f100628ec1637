"""`regard new` at the shell: options that take one file or two, and what is printed."""

import pytest

from regard.cli import run
from regard.verbs.proposals.training_speed import Speed


@pytest.fixture(autouse=True)
def _known_speed(monkeypatch):
    """That of every model: tests/cli/test_verbs.py has one measured by the command."""
    rates = {
        "target_tokens_per_second": 4e3,
        "target_tokens_per_update": 3.5e3,
        "target_tokens_per_pair": 15.0,
    }
    monkeypatch.setattr(
        "regard.verbs.proposals.plan.measure_speed", lambda *given, **named: Speed(**rates, threads=1)
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.en", "a.de", "dev.en", "dev.de", "test.en", "test.de"):
        (tmp_path / name).write_text("".join(f"line {i} of {name}\n" for i in range(40)))
    rows = "".join(f"text number {i},{'yes' if i % 2 else 'no'}\n" for i in range(60))
    for name in ("a.csv", "dev.csv"):
        (tmp_path / name).write_text(f"text,label\n{rows}")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        "a.en a.de --valid dev.en dev.de --test test.en test.de --out my recipe.toml",
        "--out my recipe.toml --test test.en test.de --valid dev.en dev.de a.en a.de",
    ],
)
def test_an_option_takes_two_files(here, capsys, arguments):
    words = [word.replace("~", " ") for word in arguments.replace("my recipe", "my~recipe").split()]
    assert run(["new", *words]) == 0
    output = capsys.readouterr().out
    assert "my recipe.toml: 40 pairs to train, 40 to validate, 40 to test" in output
    assert "regard train 'my recipe.toml' --dry-run" in output


def test_one_file_has_one_file_to_validate_on(here, capsys):
    assert run(["new", "a.csv", "--valid", "dev.csv"]) == 0
    output = capsys.readouterr().out
    assert "a.csv: classification (columns text and label); change it with --task and --columns" in output
    assert "a.toml: 60 texts to train, 60 to validate" in output
    assert "2 classes" in output


def test_mistakes_are_an_error_and_a_hint(here, capsys):
    for words, error, hint in [
        (["a.en", "a.de", "--task", "translat"], "unknown task 'translat'", "did you mean 'translation'?"),
        (["a.csv", "--columns", "txt,label"], "a.csv: no column 'txt'", "did you mean 'text'?"),
        (["--valid", "dev.csv"], "missing argument 'SOURCE'", "--help"),
        (["nowhere.csv"], "no such file: nowhere.csv", ""),
    ]:
        assert run(["new", *words]) == 2
        output = capsys.readouterr().err
        assert error in output.splitlines()[0]
        assert hint in output.splitlines()[1]
