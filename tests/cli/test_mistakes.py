"""A user's mistake is one `error:` line, one `hint:` line and exit code 2; never a traceback."""

import shutil

import pytest

from regard.cli import run

RECIPE = """
name = "small"
[data.train]
source = "train.src"
target = "train.tgt"
[data.valid]
source = "valid.src"
target = "valid.tgt"
[model]
d_model = 16
num_heads = 2
num_encoder_layers = 1
num_decoder_layers = 1
d_ff = 16
[training]
max_steps = 2
"""


@pytest.fixture
def recipe(tmp_path):
    """Writes a recipe, with one thing changed, beside the files that it names."""
    for part in ("train", "valid"):
        for side in ("src", "tgt"):
            (tmp_path / f"{part}.{side}").write_text("".join(f"line {i} of {side}\n" for i in range(30)))

    def written(old: str = "", new: str = "") -> str:
        assert old in RECIPE
        (tmp_path / "small.toml").write_text(RECIPE.replace(old, new))
        return str(tmp_path / "small.toml")

    return written


@pytest.fixture
def mistake(capsys, tmp_path):
    """A function that calls regard and returns the error and the hint that it prints."""

    def call(*arguments: str) -> tuple[str, str]:
        capsys.readouterr()
        assert run([*arguments, *(["--out", str(tmp_path / "run")] if arguments[0] == "train" else [])]) == 2
        output = capsys.readouterr().err
        lines = output.splitlines()
        assert "Traceback" not in output
        assert [line for line in lines if line.startswith("error: ")] == lines[-2:-1]
        assert [line for line in lines if line.startswith("hint: ")] == lines[-1:]
        assert len(lines[-1]) > len("hint: ")
        return lines[-2].removeprefix("error: "), lines[-1].removeprefix("hint: ")

    return call


def test_an_empty_recipe(mistake, tmp_path):
    (tmp_path / "empty.toml").write_text("")
    error, hint = mistake("train", str(tmp_path / "empty.toml"))
    assert error.endswith("empty.toml: the recipe is empty")
    assert "regard recipes show" in hint


@pytest.mark.parametrize(
    ("old", "new", "name", "hint"),
    [
        ("max_steps", "max_step", "training.max_step", "did you mean 'max_steps'?"),
        ("[training]", "[trainning]", "trainning", "did you mean 'training'?"),
        ("d_ff", "dff", "'dff'", "did you mean 'd_ff'?"),
        ("[data.valid]", "[data.validation]", "data.validation", "did you mean 'valid'?"),
    ],
)
def test_a_misspelt_key(mistake, recipe, old, new, name, hint):
    error, printed_hint = mistake("train", recipe(old, new))
    assert name in error
    assert printed_hint == hint


def test_a_misspelt_key_on_the_command_line(mistake, recipe):
    error, hint = mistake("train", recipe(), "--set", "training.max_stepz=3")
    assert "training.max_stepz" in error
    assert hint == "did you mean 'max_steps'?"


@pytest.mark.parametrize(
    ("setting", "places"),
    [
        ("d_model=32", "'model.d_model'"),
        ("training.dropout=0.1", "'training.adapter.dropout' or 'model.dropout' or 'tokenizer.dropout'"),
        ("learning_rate=0.1", "'training.schedule.learning_rate'"),
        ("data.max_steps=9", "'training.max_steps'"),
    ],
)
def test_a_key_of_another_section(mistake, recipe, setting, places):
    message, hint = mistake("train", recipe(), "--set", setting)
    assert message.endswith(f"unknown key {setting.partition('=')[0]}")
    assert hint == f"did you mean {places}?"


def test_a_key_of_another_section_beside_a_model_of_no_known_kind(mistake, recipe):
    _, hint = mistake("train", recipe("d_ff = 16", 'kind = ["x"]'), "--set", "d_model=32")
    assert hint == "did you mean 'model.d_model'?"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (
            ["new", "a.en", "a.de", "b.en", "b.de"],
            "a table [[data.train]] for each of several corpora",
        ),
        (["average", "a", "b", "--last", "2", "--out", "c"], "`regard curves RUN RUN` compares several"),
        (["recipes", "keys", "a", "b"], "see `regard recipes keys --help`"),
    ],
)
def test_more_arguments_than_a_command_takes(mistake, arguments, hint):
    error, found = mistake(*arguments)
    assert error.startswith("got unexpected extra argument")
    assert hint in found


def test_a_missing_file(mistake, recipe, tmp_path):
    error, hint = mistake("train", str(tmp_path / "smal.toml"))
    assert error.endswith("smal.toml: no such recipe")
    error, hint = mistake("train", recipe("train.src", "trein.src"))
    assert error.startswith("no such file: ")
    assert hint == "did you mean 'train.src'?"
    error, hint = mistake("translate", "--model", str(tmp_path), "--input", str(tmp_path / "absent"))
    assert hint
    error, hint = mistake("compare", "--ref", str(tmp_path / "train.sr"), "a", "b")
    assert "no such file" in error


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_steps = 2", 'max_steps = "two"', "training.max_steps must be an integer, not 'two'"),
        ("max_steps = 2", "max_steps = true", "training.max_steps must be an integer, not True"),
        ("max_steps = 2", "max_steps = 0", "training.max_steps must be 1 or more, not 0"),
        ('"train.src"', "3", "data.train.source must be a string, not 3"),
        ('name = "small"', 'name = "small"\nvalidation = 3', "validation must be a table, not 3"),
    ],
)
def test_a_wrong_type(mistake, recipe, old, new, message):
    error, hint = mistake("train", recipe(old, new))
    assert message in error
    assert hint


def test_a_model_that_cannot_be_built(mistake, recipe):
    error, hint = mistake("train", recipe("num_heads = 2", "num_heads = 3"))
    assert "d_model (16) must be divisible by num_heads (3)" in error
    assert hint == "for instance d_model = 15"


def test_an_unreadable_encoding(mistake, recipe, tmp_path):
    path = recipe()
    (tmp_path / "train.tgt").write_bytes(b"line\n" * 10 + "Häuser\n".encode("latin-1") + b"line\n" * 19)
    error, hint = mistake("train", path)
    assert "train.tgt:11: not UTF-8 (byte 0xe4 at byte 2)" in error
    assert "iconv" in hint
    (tmp_path / "small.toml").write_bytes(RECIPE.encode("utf-16"))
    error, hint = mistake("train", path)
    assert "not UTF-8" in error


@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_truncated_weights_file(mistake, untrained, tmp_path, share):
    shutil.copytree(untrained, tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: int(len(whole) * share)])
    error, _ = mistake("translate", "1 2 3", "--model", str(tmp_path / "cut"))
    assert "model.safetensors" in error


def test_a_device_that_is_not_there(mistake, untrained):
    error, hint = mistake("translate", "1", "--model", str(untrained), "--device", "mps")
    assert error == "device mps is not available here"
    assert "--device auto" in hint
