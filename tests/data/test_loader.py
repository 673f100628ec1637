"""The loader: every example once per epoch, the same batches from any cursor, full batches."""

import os
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.batch import PairBatch
from regard.data.corpus import Corpus, CorpusSettings, LinePolicy, open_corpus
from regard.data.examples import PairExamples
from regard.data.loader import Cursor, Loader, LoaderSettings, bucket_by_length
from regard.data.shards import Shards, write_shards
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
from regard.errors import RecipeError

DATA = Path(os.environ.get("REGARD_DATA", "/nowhere"))
PAD = 0
EXAMPLES = 400
# Multi30k's target lengths in BPE tokens, in thousandths: how many have 5 tokens or fewer, 6, 7, ...
CAPTIONS = [
    3,
    7,
    22,
    49,
    77,
    98,
    107,
    109,
    101,
    91,
    77,
    64,
    50,
    39,
    29,
    21,
    16,
    11,
    8,
    6,
    4,
    3,
    2,
    2,
    1,
    1,
    1,
    1,
]


def shards_of(folder: Path, lengths: list[tuple[int, int]], **choices: object) -> Shards:
    """Examples of so many words on each side."""
    rows = [(" ".join("a" * source), " ".join("b" * target)) for source, target in lengths]
    corpus = Corpus("test", lambda: rows, LinePolicy())
    tokenizers = train_tokenizers(corpus, TokenizerSettings(kind="bytebpe", vocab_size=262))
    write_shards(corpus, tokenizers, folder, max_tokens=300, **choices)
    return Shards(folder)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Shards:
    draw = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 12, (EXAMPLES, 2), generator=draw).tolist()
    return shards_of(tmp_path_factory.mktemp("shards"), [tuple(pair) for pair in lengths])


def loader_of(shards: Shards, *, seed: int = 1, **choices: int) -> Loader:
    choices = {"batch_tokens": 200, "window": 150, **choices}
    return Loader(PairExamples(shards, PAD), LoaderSettings(**choices), seed=seed)


def lines(batches: list[PairBatch]) -> list[list[int]]:
    return [batch.lines.tolist() for batch in batches]


def flat(batches: list[PairBatch]) -> list[int]:
    return [line for batch in batches for line in batch.lines.tolist()]


def same(one: PairBatch, other: PairBatch) -> bool:
    assert one.targets is other.targets is None
    theirs = other.tensors()
    return all(torch.equal(tensor, theirs[name]) for name, tensor in one.tensors().items())


EVERY_LINE = list(range(1, EXAMPLES + 1))


@pytest.mark.parametrize("window", [1, 7, 128, 129, 200, 5000])
def test_an_epoch_gives_every_example_once(shards, window):
    loader = loader_of(shards, window=window)
    count = loader.batches_in_epoch(3)
    batches = list(loader.epoch(3))
    assert len(batches) == count
    assert sorted(flat(batches)) == EVERY_LINE


def test_rows_are_those_of_the_shards(shards):
    for batch in loader_of(shards).epoch(0):
        for row, line in enumerate(batch.lines.tolist()):
            example = np.array([line - 1])
            source = batch.src_ids[row, : batch.src_lengths[row]].numpy()
            target = batch.tgt_ids[row, : batch.tgt_lengths[row]].numpy()
            assert np.array_equal(source, shards.copy(0).sources(example)[0])
            assert np.array_equal(target, shards.copy(0).targets(example)[0])


def test_the_order_is_a_function_of_the_seed_and_the_epoch(shards):
    once, again = (lines(list(loader_of(shards).epoch(2))) for _ in range(2))
    assert once == again
    assert once != lines(list(loader_of(shards).epoch(3)))
    assert once != lines(list(loader_of(shards, seed=2).epoch(2)))


def test_epochs_follow_one_another_without_end(shards):
    loader = loader_of(shards)
    epochs = [list(loader.epoch(epoch)) for epoch in range(3)]
    endless = list(islice(loader, sum(map(len, epochs))))
    assert lines(endless) == lines([batch for epoch in epochs for batch in epoch])
    assert loader.cursor == Cursor(epoch=3)


def test_from_any_cursor_the_rest_is_the_same(shards):
    loader = loader_of(shards)
    batches, cursors = [], [loader.cursor]
    for batch in islice(loader, 60):
        batches.append(batch)
        cursors.append(loader.cursor)
    assert len(set(cursors)) == len(cursors)
    assert {cursor.epoch for cursor in cursors} >= {0, 1}
    assert {cursor.window for cursor in cursors} >= {0, 1}
    for start in (0, 1, 17, 33, 55):
        resumed = loader_of(shards)
        resumed.cursor = Cursor.from_dict(cursors[start].to_dict())
        assert all(same(*both) for both in zip(resumed, batches[start:], strict=False))


def test_a_cursor_moved_between_two_batches_moves_the_reading(shards):
    loader = loader_of(shards)
    reading = iter(loader)
    first = next(reading)
    next(reading)
    loader.cursor = Cursor()
    assert same(next(reading), first)


def test_a_cursor_is_three_whole_numbers():
    cursor = Cursor(epoch=4, window=2, batch=9)
    assert cursor.to_dict() == {"epoch": 4, "window": 2, "batch": 9}
    assert Cursor.from_dict(cursor.to_dict()) == cursor


# Packing


def real_share(batches: list[PairBatch]) -> float:
    return sum(batch.num_targets for batch in batches) / sum(batch.labels.numel() for batch in batches)


@settings(deadline=None, max_examples=25)
@given(batch_tokens=st.integers(1, 400), seed=st.integers(0, 99))
def test_no_batch_is_beyond_its_budget_but_a_single_long_example(shards, batch_tokens, seed):
    for batch in loader_of(shards, batch_tokens=batch_tokens, seed=seed).epoch(0):
        positions = len(batch) * max(batch.src_ids.size(1), batch.labels.size(1))
        assert positions <= batch_tokens or len(batch) == 1


def test_batches_are_as_full_as_the_next_example_allows(shards):
    examples = np.arange(len(shards))
    copy = shards.copy(0)
    batches = bucket_by_length(
        examples, copy.target_lengths(examples) - 1, copy.source_lengths(examples), 200
    )
    assert sorted(np.concatenate(batches)) == list(examples)
    for batch, following in pairwise(batches):
        more = np.append(batch, following[0])
        longest = max(copy.source_lengths(more).max(), copy.target_lengths(more).max() - 1)
        assert len(more) * longest > 200


def test_captions_fill_97_percent_of_the_target_positions(tmp_path):
    draw = torch.Generator().manual_seed(0)
    weights = torch.tensor(CAPTIONS, dtype=torch.float64)
    targets = 4 + torch.multinomial(weights, 8000, replacement=True, generator=draw)
    sources = (targets + torch.randint(-3, 3, (8000,), generator=draw)).clamp(min=1)
    shards = shards_of(tmp_path, list(zip(sources.tolist(), targets.tolist(), strict=True)))
    loader = loader_of(shards, batch_tokens=4096, window=65_536)
    batches = list(loader.epoch(0))
    assert real_share(batches) >= 0.97
    assert sum(batch.num_targets for batch in batches) / len(batches) > 0.8 * 4096


@pytest.mark.nightly
@pytest.mark.skipif(not DATA.is_dir(), reason="needs REGARD_DATA")
def test_multi30k_fills_97_percent_of_the_target_positions(tmp_path):
    names = {"source": "multi30k_tok:train.en.gz", "target": "multi30k_tok:train.de.gz"}
    corpus = open_corpus(CorpusSettings(**names), LinePolicy(), Path())
    tokenizers = train_tokenizers(corpus, TokenizerSettings(vocab_size=10_000))
    write_shards(corpus, tokenizers, tmp_path, max_tokens=256)
    loader = loader_of(Shards(tmp_path), batch_tokens=4096, window=65_536)
    assert real_share(list(loader.epoch(0))) >= 0.97


# Order and copies


def test_a_sorted_corpus_is_mixed_in_every_window(tmp_path):
    ascending = shards_of(tmp_path, [(1 + n // 256, 1 + n // 256) for n in range(5120)])
    loader = loader_of(ascending, window=1280, batch_tokens=500)
    reading = iter(loader)
    for window in range(4):
        lines = []
        while loader.cursor.window == window and loader.cursor.epoch == 0:
            lines += flat([next(reading)])
        middle = sum(line > 2560 for line in lines) / len(lines)
        assert 0.1 < middle < 0.9
        assert max(lines) - min(lines) > 2560


def test_batches_of_all_lengths_are_mixed(shards):
    sizes = [batch.tgt_ids.size(1) for batch in loader_of(shards, window=1000).epoch(0)]
    assert sizes != sorted(sizes)
    assert sizes != sorted(sizes, reverse=True)


def test_epochs_read_the_copies_in_turn(tmp_path):
    rows = [(f"lower lowest lowly {n}", f"newer newest newly {n}") for n in range(50)]
    corpus = Corpus("test", lambda: rows, LinePolicy())
    tokenizers = train_tokenizers(corpus, TokenizerSettings(vocab_size=100))
    write_shards(corpus, tokenizers, tmp_path, max_tokens=300, dropout=0.3, copies=2, seed=1)
    shards = Shards(tmp_path)
    loader = loader_of(shards)
    for epoch in range(4):
        for batch in loader.epoch(epoch):
            for row, line in enumerate(batch.lines.tolist()):
                held = batch.tgt_ids[row, : batch.tgt_lengths[row]].numpy()
                assert np.array_equal(held, shards.copies[epoch % 2].targets(np.array([line - 1]))[0])


@pytest.mark.parametrize("name", ["batch_tokens", "window", "max_tokens"])
def test_settings_that_cannot_work_are_refused(name):
    with pytest.raises(RecipeError, match=f"{name} = 0"):
        LoaderSettings(**{name: 0})
