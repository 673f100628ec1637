"""Every recipe reads, says what its keys mean, and gets through its first update."""

import re
import tomllib
from pathlib import Path

import pytest

from regard.data.catalogue import find_file, is_spec
from regard.errors import DataError
from regard.verbs.shared.settings import load_recipe
from regard.verbs.train import train
from regard.verbs.training_run import dry_run

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
FEW = 512  # positions in a batch; the recipes have up to 16,384
SMALLER = {  # the texts that a recipe reads instead of the 29,000 and 17,000 it trains on
    "multi30k-raw-en-de": ["data.train.source=multi30k:val.en", "data.train.target=multi30k:val.de"],
    "scan-length": ["data.train.file=scan:length.test.txt.gz"],
}
FIRST = (  # kinds of task and model that no other test trains by a recipe; the others nightly
    "gat-cora",
    "graph-transformer-cora",
    "multi30k-raw-en-de",
    "scan-length",
    "shakespeare-char-cpu",
    "trec",
    "vit-mnist",
)


def has_data(path):
    """Whether every data set that a recipe names is on this machine."""
    data = tomllib.loads(path.read_text("utf-8"))["data"]
    files = [
        value
        for part in [data, *data.values()]
        if isinstance(part, dict)
        for value in part.values()
        if isinstance(value, str) and is_spec(value)
    ]
    try:
        return all(find_file(file) for file in files)
    except DataError:
        return False


def test_the_recipes_that_go_first_are_there():
    assert set(FIRST) <= {path.stem for path in RECIPES}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_named_as_its_file_and_reads(path):
    assert load_recipe(path).recipe.name == path.stem


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_each_key_of_a_recipe_is_commented_once(path):
    section, keys, commented = "", set(), set()
    for line in re.sub(r'"""[\s\S]*?"""', '""', path.read_text("utf-8")).splitlines():
        if found := re.match(r"\[([\w.]+)\]", line):
            section = re.sub(r"data\.(train|valid|test)", "data", found[1]) + "."
        elif (found := re.match(r"(\w+) = ", line)) and found[1] not in ("description", "card"):
            keys.add(section + found[1])
            if re.search(r"  # \w", line):
                commented.add(section + found[1])
    assert keys
    assert keys - commented == set()


def marks_of(path):
    return [] if path.stem in FIRST else [pytest.mark.nightly]


ABSENT = pytest.mark.skip("its data set is not on this machine")


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[*marks_of(path), *(() if has_data(path) else [ABSENT])]) for path in RECIPES],
    ids=lambda path: path.stem,
)
def test_a_recipe_gets_through_its_first_update(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dry_run, "UPDATES", 1)  # it times up to twenty
    tokens = tomllib.loads(path.read_text("utf-8")).get("batches", {}).get("batch_tokens")
    smaller = [*SMALLER.get(path.stem, ()), *([f"batches.batch_tokens={FEW}"] if tokens else [])]
    result = train(path, dry_run=True, overrides=smaller)
    assert result.metrics["loss"] > 0
    assert list(tmp_path.iterdir()) == [], "nothing is kept"
