"""Several corpora of running text: each is read as its weight says, and a run resumes to the bit."""

import re
from collections import Counter

import numpy as np
import pytest

from regard.errors import DataError, RecipeError
from regard.verbs.evaluate import evaluate
from regard.verbs.shared.settings import load_recipe
from regard.verbs.tasks.kinds import KINDS
from regard.verbs.train import train
from regard.weights.checkpoint import RunFolder, checkpoint_digest

RECIPE = """
name = "mixed"
[task]
kind = "{kind}"
{task}
{data}
[data.valid]
file = "valid.txt"
document = "line"
[tokenizer]
kind = "words"
[model]
d_model = 16
num_heads = 2
d_ff = 16
num_layers = 1
[batches]
batch_tokens = 64
[training]
max_steps = 6
validate_every = 3
save_every = 3
[training.schedule]
warmup_steps = 1
"""
TABLE = """[[data.train]]
file = "{name}.txt"
document = "line"
{weight}
"""
TASKS = {"blocks": "block = 4", "documents": "block = 4\napart = true", "masks": "whole_words = false"}
LETTERS = {"large": "abcde", "small": "vwxyz"}  # the words of each corpus
LINES = {"large": 40, "small": 8}  # of four words each


@pytest.fixture
def folder(tmp_path):
    for name, letters in LETTERS.items():
        lines = [" ".join(letters[(n + k) % 5] for k in range(4)) for n in range(LINES[name])]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "valid.txt").write_text("a b c d\nv w x y\n" * 3)
    return tmp_path


def recipe(folder, task="blocks", large="weight = 1.0", small="weight = 3.0", data=""):
    kind = "masked_language_model" if task == "masks" else "language_model"
    tables = [TABLE.format(name=name, weight=each) for name, each in (("large", large), ("small", small))]
    path = folder / "mixed.toml"
    path.write_text(RECIPE.format(kind=kind, task=TASKS[task], data=f"{data}{''.join(tables)}"))
    return path


def prepared(path, folder, said=None, **others):
    source = load_recipe(path)
    say = (lambda line: None) if said is None else said.append
    return KINDS[source.recipe.task.kind].prepare(source, folder, say=say, **others)


def read(task, epochs):
    """How many words of each corpus some epochs read."""
    tokenizer = task.tokenizer if hasattr(task, "tokenizer") else task._tokenizer
    found, loader = Counter(), task.loader()
    for epoch in epochs:
        for batch in loader.epoch(epoch):
            words = " ".join(tokenizer.tokens(batch.ids.flatten().tolist()))
            found += Counter({name: sum(map(words.count, each)) for name, each in LETTERS.items()})
    return found


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("large", "small", "data", "share"),
    [
        ("weight = 1.0", "weight = 3.0", "", 0.75),
        ("", "", "", 8 / 48),
        ("", "", "[data]\nmixture_temperature = 1e9\n", 0.5),
    ],
)
def test_an_epoch_has_each_corpus_as_often_as_its_weight_says(folder, task, large, small, data, share):
    said = []
    path = recipe(folder, task, large, small, data)
    words = read(prepared(path, folder / "data", said), range(4))
    assert words["small"] / words.total() == pytest.approx(share, abs=0.06)
    assert words == read(prepared(path, folder / "data"), range(4))
    mixture = [line for line in said if line.startswith("mixture: ")]
    shares = [float(re.search(r"([\d.]+) % of the (block|text)s", line)[1]) for line in mixture]
    assert shares == pytest.approx([100 - 100 * share, 100 * share], abs=2)


def test_each_reading_of_a_corpus_begins_at_another_place(folder):
    """As each epoch of one corpus does: so each word is predicted with contexts of every length."""
    examples = prepared(recipe(folder), folder / "data").examples()
    firsts = examples.batch(np.array([reading * len(examples) for reading in range(20)]), 0).ids
    assert len({tuple(row) for row in firsts.tolist()}) > 1


def test_a_text_is_masked_in_another_way_at_each_reading(folder):
    examples = prepared(recipe(folder, "masks"), folder / "data").examples()
    numbers = np.array([reading * len(examples) for reading in range(6)])
    batch = examples.batch(numbers, 0)
    assert len({tuple(row) for row in batch.places.tolist()}) > 1
    assert set(batch.lengths.tolist()) == set(examples.lengths(numbers, 0)[0].tolist())


@pytest.mark.parametrize("task", TASKS)
def test_a_run_resumes_to_the_bit(folder, task):
    path = recipe(folder, task)
    whole = train(path, out=folder / "whole", overrides=["training.max_steps=20"], quiet=True)
    train(path, out=folder / "cut", overrides=["training.max_steps=9"], quiet=True)
    cut = train(folder / "cut", overrides=["training.max_steps=20"], quiet=True)
    digests = [checkpoint_digest(RunFolder(each.run).latest()) for each in (whole, cut)]
    assert digests[0] == digests[1]


def test_a_share_of_each_corpus_is_held_out_and_a_file_is_scored(folder):
    path = recipe(folder, "masks")
    shared = ["data.valid=null", "data.valid_share=0.25"]
    said = []
    KINDS["masked_language_model"].prepare(load_recipe(path, shared), folder / "data", say=said.append)
    assert said[:2] == ["training: 36 texts, 252 characters", "validation: 12 texts, 84 characters"]
    assert [re.search(r"(\d+) texts,", line)[1] for line in said if "mixture" in line] == ["30", "6"]
    run = train(path, out=folder / "run", overrides=shared, quiet=True).run
    found = evaluate(model=run, data=folder / "small.txt", threads=1)
    assert {each.name for each in found.scores} >= {"masked accuracy", "unigram accuracy"}


@pytest.mark.parametrize("task", TASKS)
def test_a_dry_run_reads_some_of_each_corpus(folder, task):
    limited = prepared(recipe(folder, task), folder / "data", limit=8)
    assert min(read(limited, [0]).values()) > 0


@pytest.mark.parametrize(
    ("task", "small", "data", "message"),
    [
        ("blocks", "", "", "1 of 2 corpora of data.train have a weight"),
        ("masks", "weight = -1", "", r"data\.train\[1\]: weight = -1\.0 reads no text"),
        ("masks", "weight = 1", "[data]\nmixture_temperature = 2\n", "and the corpora of data.train have w"),
        ("blocks", "weight = 1", "[data]\ntokens = 'there'\n", "data.train and data.tokens are both given"),
        ("blocks", "weight = 1\nshare = [0.5, 2.0]", "", r"data\.train\[1\]: share"),
    ],
)
def test_what_cannot_be_mixed_is_refused_by_name(folder, task, small, data, message):
    with pytest.raises(RecipeError, match=message):
        load_recipe(recipe(folder, task, small=small, data=data))


def test_text_that_is_validated_on_is_in_no_corpus(folder):
    path = recipe(folder)
    path.write_text(path.read_text().replace("small.txt", "valid.txt"))
    with pytest.raises(RecipeError, match=r"data\.train and data\.valid have text in common"):
        load_recipe(path)


@pytest.mark.parametrize(
    ("task", "text", "message"),
    [
        ("blocks", "v w\n", r"small\.txt has 3 tokens, less than a block of 4"),
        ("blocks", "\n", r"small\.txt: the selected text is empty"),
        ("masks", "\n", r"small\.txt: no text is left to train on"),
    ],
)
def test_a_corpus_that_is_too_short_is_named(folder, task, text, message):
    (folder / "small.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        prepared(recipe(folder, task), folder / "data").examples()
