"""A translation of several corpora: each is read as its weight says, and a run resumes to the bit."""

import re

import numpy as np
import pytest

from regard.data.corpus import Corpus, LinePolicy
from regard.data.corpus_mixture import Mixture, described
from regard.errors import DataError
from regard.verbs.shared.settings import load_recipe
from regard.verbs.tasks.kinds import KINDS
from regard.verbs.train import train
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from tests.verbs.test_train import RECIPE

ONE = RECIPE[RECIPE.index("[data.train]") : RECIPE.index("[data.valid]")]
SMALL = ONE.replace("200", "40").replace("copy", "reverse")


def mixed(folder, large="weight = 1.0", small="weight = 3.0", data=""):
    path = folder / "mixed.toml"
    tables = "".join(
        f"{table.replace('[data.train]', '[[data.train]]')}{weight}\n"
        for table, weight in ((ONE, large), (SMALL, small))
    )
    path.write_text(RECIPE.replace(ONE, f"{data}{tables}"))
    return path


def loader_of(path, folder, said=None):
    source = load_recipe(path)
    say = (lambda line: None) if said is None else said.append
    return KINDS["translation"].prepare(source, folder, say=say).loader()


@pytest.mark.parametrize(
    ("large", "small", "data", "reads"),
    [
        ("weight = 1.0", "weight = 3.0", "", (60, 180)),
        ("", "", "", (200, 40)),
        ("", "", "[data]\nmixture_temperature = 1e9\n", (120, 120)),
    ],
)
def test_an_epoch_has_each_corpus_as_often_as_its_weight_says(tmp_path, large, small, data, reads):
    said = []
    loader = loader_of(mixed(tmp_path, large, small, data), tmp_path / "data", said)
    shares = [line for line in said if line.startswith("mixture: ")]
    times = [f"{count / size:.3g} times" for count, size in zip(reads, (200, 40), strict=True)]
    assert [re.search(r"[\d.]+ times", line)[0] for line in shares] == times
    sources = [row for batch in loader.epoch(0) for row in batch.src_ids.tolist()]
    assert len(sources) == sum(reads) == 240
    again = loader_of(mixed(tmp_path, large, small, data), tmp_path / "data")  # from the shards
    for one, other in zip(loader.epoch(3), again.epoch(3), strict=True):
        assert np.array_equal(one.src_ids, other.src_ids)


def test_a_dry_run_reports_the_mixture_of_the_whole_corpora(tmp_path):
    path, said = mixed(tmp_path, "weight = 1.0", "weight = 3.0"), []
    prepare = KINDS["translation"].prepare
    prepare(load_recipe(path), tmp_path / "whole", say=said.append)
    mixture = [line for line in said if line.startswith("mixture: ")]
    said.clear()
    prepare(load_recipe(path), tmp_path / "short", say=said.append, limit=60)
    assert [line for line in said if line.startswith("mixture: ")] == mixture
    assert said[0] == "train: 240 pairs"
    assert any(line.startswith("dry run: 60 pairs") for line in said)


def test_a_run_of_several_corpora_resumes_to_the_bit(tmp_path):
    recipe = mixed(tmp_path)
    long = ["training.max_steps=20"]  # more than two epochs
    whole = train(recipe, out=tmp_path / "whole", overrides=long)
    train(recipe, out=tmp_path / "cut", overrides=["training.max_steps=12"])
    cut = train(tmp_path / "cut", overrides=long)
    digests = [checkpoint_digest(RunFolder(each.run).latest()) for each in (whole, cut)]
    assert digests[0] == digests[1]


def test_a_corpus_without_a_pair_is_named(tmp_path):
    (tmp_path / "a").write_text("1 2 3 4 5 6 7\n" * 3)
    (tmp_path / "empty").write_text("\n" * 3)
    path = mixed(tmp_path)
    table = '[[data.train]]\nsource = "a"\ntarget = "empty"\nweight = 1.0\n'
    path.write_text(path.read_text().replace("[data.valid]", f"{table}[data.valid]"))
    with pytest.raises(DataError, match="a - empty: no pair is left to train on"):
        loader_of(path, tmp_path / "data")


def test_corpora_whose_files_have_the_same_names_are_named_by_their_numbers():
    names = [Corpus("train.en - train.de", lambda: (), LinePolicy()) for _ in range(2)]
    lines = [*described(Mixture(), [*names, Corpus("other", lambda: (), LinePolicy())], [4, 2, 2])]
    wanted = ["data.train.0 (train.en - train.de)", "data.train.1 (train.en - train.de)", "other"]
    assert [line.split(": ")[1] for line in lines] == wanted
