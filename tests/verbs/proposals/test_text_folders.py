"""A folder of .txt files is running text, each file a document; a model of texts is not started by `new`."""

import json

import pytest

from regard.cli import run
from regard.errors import DataError, RecipeError
from regard.verbs.new import new

LINE = "the king said the word of the king to the queen\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "texts").mkdir()
    for number in range(30):
        (tmp_path / "texts" / f"{number:02}.txt").write_text(f"chapter {number}\n{LINE * 5}")
    for hidden in (".hidden.txt", ".hidden.png"):
        (tmp_path / "texts" / hidden).write_text("hidden")
    return tmp_path / "texts"


@pytest.mark.parametrize("task", [None, "language_model"])
def test_each_file_is_a_text(folder, task):
    written = new(folder, task=task, out=folder.parent / "texts.toml")
    assert written.reading == "language_model (30 .txt files, each a text)"
    lines = [*(folder.parent / "texts.data").glob("*.jsonl")]
    found = [json.loads(line)["text"] for path in lines for line in path.read_text().splitlines()]
    assert sorted(found) == sorted(path.read_text() for path in folder.glob("[0-9]*.txt"))


def test_files_in_folders_within_it_are_read_if_the_task_says_so(folder):
    parts = folder / "a"
    parts.mkdir()
    for path in folder.glob("1*.txt"):
        path.rename(parts / path.name)
    written = new(folder, task="language_model", out=folder.parent / "texts.toml")
    assert written.reading == "language_model (30 .txt files, each a text)"
    with pytest.raises(DataError, match="is a folder"):
        new(tmp_empty(folder), task="language_model", out=folder.parent / "other.toml")


def tmp_empty(folder):
    (folder.parent / "empty").mkdir()
    return folder.parent / "empty"


def test_what_says_how_to_start_from_a_model_is_a_recipe_that_works(folder):
    with pytest.raises(RecipeError, match="init is for translations") as refused:
        new(folder, init="runs/gpt2", out=folder.parent / "texts.toml")
    assert 'init = "runs/gpt2"' in refused.value.hint


def test_the_hint_for_several_files_of_texts_is_a_folder(capsys):
    assert run(["new", "a.txt", "b.txt", "c.txt"]) == 2
    assert "a folder of .txt files" in capsys.readouterr().err
