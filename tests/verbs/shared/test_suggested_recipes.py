"""A verb without a model names a recipe that trains one, its minutes, and the data to download first."""

import inspect
import math
import re
import tomllib
from pathlib import Path

import pytest

import regard
from regard.data import catalogue
from regard.errors import DataError, UserError
from regard.verbs.recipes import recipe_folder, recipe_path, recipes
from regard.verbs.shared.suggested_recipes import PRETRAINED, SUGGESTED, missing_model

KINDS = {  # verb -> tasks whose models it takes
    "generate": {"language_model"},
    "classify": {"classification", "regression"},
    "classify_images": {"images"},
    "classify_nodes": {"nodes"},
    "tag": {"tagging"},
    "embed": {"masked_language_model"},
    "fill": {"masked_language_model"},
    "score_texts": {"language_model"},
    "transcribe": {"transcription"},
}
CALLS = [
    (name, call)
    for name, call in ((name, getattr(regard, name)) for name in regard.__all__)
    if callable(call) and call.__module__.rpartition(".")[2] in {*SUGGESTED, *PRETRAINED}
]


@pytest.mark.parametrize("verb", SUGGESTED)
def test_each_suggested_recipe_comes_with_regard_and_is_of_that_task(verb):
    recipe = SUGGESTED[verb].recipe
    assert recipe in {each.name for each in recipes()}
    assert tomllib.loads(recipe_path(recipe).read_text("utf-8"))["task"]["kind"] in KINDS[verb]


@pytest.mark.parametrize("verb", SUGGESTED)
def test_the_minutes_are_those_that_were_measured(verb):
    rows = (recipe_folder() / "README.md").read_text("utf-8").splitlines()
    [row] = [
        row for row in rows if row.startswith("|") and f"`{SUGGESTED[verb].recipe}`" in row.split("|")[1]
    ]
    times = re.findall(r"(\d+) (s|min)\b|(about a minute)", row.split("|")[4])
    assert times, f"no time in {row}"
    number, unit, _ = times[0]
    minutes = 1 if not number else math.ceil(int(number) / (60 if unit == "s" else 1))
    assert SUGGESTED[verb].minutes == minutes


@pytest.fixture
def no_data(monkeypatch, tmp_path):
    monkeypatch.setattr(catalogue, "data_folders", lambda: [tmp_path])


@pytest.mark.parametrize(("name", "call"), CALLS, ids=[name for name, _ in CALLS])
def test_a_call_without_a_model_names_the_recipe(name, call, no_data):
    verb = call.__module__.rpartition(".")[2]
    texts = [
        "a text"
        for each in inspect.signature(call).parameters.values()
        if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD and each.name != "model"
    ]
    for given in ({}, {"model": None}):
        with pytest.raises(UserError, match=f"{verb} needs a model") as caught:
            call(*texts, **given) if not isinstance(call, type) else call(**given)
        if verb in SUGGESTED:
            assert f"`regard train {SUGGESTED[verb].recipe}`" in caught.value.hint
            assert "minute" in caught.value.hint
        else:
            assert "docs/pretrained.md" in caught.value.hint


def test_another_mistake_is_not_taken_for_a_missing_model():
    with pytest.raises(TypeError):
        regard.classify("a text", modle=Path("x"))


def test_missing_data_are_to_be_downloaded_first(monkeypatch, tmp_path):
    monkeypatch.setattr(catalogue, "data_folders", lambda: [tmp_path])
    assert "`regard data get tiny_shakespeare`, then `regard train" in missing_model("generate").hint
    (tmp_path / "tiny_shakespeare").mkdir()
    (tmp_path / "tiny_shakespeare" / "input.txt.gz").write_bytes(b"")
    assert "data get" not in missing_model("generate").hint
    assert "data get" not in missing_model("transcribe").hint, "its recipe makes its data"


def test_training_without_the_data_fails_at_once_with_a_hint(no_data, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="tiny_shakespeare is not here") as caught:
        regard.train("shakespeare-char-cpu", threads=1)
    assert "regard data get tiny_shakespeare" in caught.value.hint
    assert not list(tmp_path.iterdir()), "no run was begun"
