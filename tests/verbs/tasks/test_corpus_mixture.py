"""A translation of several corpora: each is read as its weight says, and a run resumes to the bit."""

import re

import numpy as np
import pytest

from regard.data.corpus import Corpus, LinePolicy
from regard.data.corpus_mixture import names_of
from regard.errors import DataError, RecipeError
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


def test_a_wrong_setting_of_a_corpus_is_named_with_its_table(tmp_path):
    with pytest.raises(RecipeError, match=r": data\.train\[1\]: weight = -2\.0 reads no pair"):
        load_recipe(mixed(tmp_path, small="weight = -2"))
    with pytest.raises(RecipeError, match=r": data\.train\[0\]: size = 0 makes no examples"):
        load_recipe(mixed(tmp_path), ["data.train.0.size=0"])
    with pytest.raises(RecipeError, match=r": data\.valid: source_field = '1' is a setting of a file"):
        load_recipe(mixed(tmp_path), ["data.valid.source_field='1'"])


def test_a_task_of_one_corpus_says_how_several_files_become_one(tmp_path):
    tables = "[[data.train]]\nfile = 'a'\nweight = 2\n" * 2
    task = "name = 'a'\n[task]\nkind = 'classification'\n"
    (tmp_path / "a.toml").write_text(f"{task}{tables}[data.valid]\nfile = 'a'\n")
    with pytest.raises(RecipeError, match=r"data\.train must be a table") as error:
        load_recipe(tmp_path / "a.toml")
    assert "join the files" in error.value.hint


def test_a_tokenised_corpus_has_no_weights(tmp_path):
    tokens = "[data]\ntokens = 'tokens'\n"
    with pytest.raises(RecipeError, match=r"data\.train and data\.tokens are both given") as error:
        load_recipe(mixed(tmp_path, data=tokens))
    assert "read as one corpus without weights" in error.value.hint
    (tmp_path / "a.toml").write_text(RECIPE.replace(ONE, f"{tokens}mixture_temperature = 5\n"))
    with pytest.raises(RecipeError, match="mixture_temperature is for several corpora") as error:
        load_recipe(tmp_path / "a.toml")
    assert "in place of data.tokens" in error.value.hint


def test_each_reading_of_a_pair_has_the_next_of_its_segmentations(tmp_path):
    dropout = ["tokenizer.kind=bpe", "tokenizer.vocab_size=60", "tokenizer.dropout=0.5", "tokenizer.copies=3"]
    task = KINDS["translation"].prepare(load_recipe(mixed(tmp_path), dropout), tmp_path / "data", say=str)
    loader = task.loader()
    copies, read = loader.examples.shards.copies, dict[int, list[int]]()
    for epoch in (0, 1):
        for window in range(loader.order.num_windows(epoch)):
            for number in loader.order.window(epoch, window).tolist():
                read.setdefault(number % 240, []).append(number // 240)
    for pair in range(200, 240):  # of the corpus that an epoch reads 4.5 times
        assert read[pair] == [0, 1, 2] * 3
    numbers = np.array([205, 240 + 205, 480 + 205, 7])
    expected = [
        copies[copy].sources(np.array([pair]))[0] for copy, pair in ((0, 205), (1, 205), (2, 205), (0, 7))
    ]
    batch = loader.examples.batch(numbers, 0)
    assert [row[: len(ids)].tolist() for row, ids in zip(batch.src_ids, expected, strict=True)] == [
        ids.tolist() for ids in expected
    ]
    assert loader.examples.lengths(numbers, 0)[1].tolist() == [len(ids) for ids in expected]
    assert len({tuple(ids.tolist()) for ids in expected[:3]}) > 1


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
    wanted = ["data.train.0 (train.en - train.de)", "data.train.1 (train.en - train.de)", "other"]
    assert names_of([*names, Corpus("other", lambda: (), LinePolicy())]) == wanted
