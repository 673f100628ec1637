"""Shards are read as written, counted, made once, and never incomplete."""

import errno
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from regard.data import shards as shards_file
from regard.data.corpus import Corpus, LinePolicy
from regard.data.corpus_formats import Row
from regard.data.examples import PairExamples
from regard.data.loader import Loader, LoaderSettings
from regard.data.noise import SampledTokenizer, derive_seed
from regard.data.shards import Copy, Shards, write_shards
from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizers
from regard.errors import DataError, RunError

ROWS = [(f"source number {n} " + "x" * (n % 7), "target " * (n % 5 + 1) + str(n)) for n in range(300)]


def corpus_of(rows: list[Row], name: str = "test") -> Corpus:
    return Corpus(name, lambda: rows, LinePolicy())


def tokenizers_of(rows: list[Row], **choices: object) -> TokenizerPair:
    return train_tokenizers(corpus_of(rows), TokenizerSettings(vocab_size=200, **choices))


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return tokenizers_of(ROWS)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def seventh(copy: Copy) -> np.ndarray:
    return copy.sources(np.array([7]))[0]


def test_a_limit_of_the_system_is_named_with_the_folder(tmp_path, tokenizers, small_files):
    with pytest.raises(RunError, match=r"cannot write .*shards: File too large") as raised, small_files():
        write_shards(corpus_of(ROWS), tokenizers, tmp_path / "shards", max_tokens=100)
    assert "ulimit -f" in raised.value.hint


def test_a_corpus_that_cannot_be_read_is_named(tmp_path, tokenizers):
    def rows():
        yield "a", "b"
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(RunError, match="cannot read broken: Input/output error"):
        write_shards(Corpus("broken", rows, LinePolicy()), tokenizers, tmp_path / "shards", max_tokens=100)


@pytest.mark.parametrize("joint", [True, False])
def test_what_is_read_is_what_was_tokenised(tmp_path, joint, monkeypatch):
    monkeypatch.setattr(shards_file, "CHUNK_PAIRS", 7)
    pair = tokenizers_of(ROWS, joint=joint)
    report = write_shards(corpus_of(ROWS), pair, tmp_path / "shards", max_tokens=100)
    shards = Shards(tmp_path / "shards")
    assert len(shards) == report.pairs == len(ROWS)
    copy = shards.copy(epoch=5)
    everything = np.arange(len(ROWS))
    for source, held in zip(ROWS, copy.sources(everything), strict=True):
        assert held.tolist() == [*pair.source.encode(source[0]), pair.source.eos_id]
    for target, held in zip(ROWS, copy.targets(everything), strict=True):
        assert held.tolist() == [pair.target.bos_id, *pair.target.encode(target[1]), pair.target.eos_id]
    examples = np.array([3, 299, 0])
    assert copy.source_lengths(examples).tolist() == [len(ids) for ids in copy.sources(examples)]
    assert copy.target_lengths(examples).tolist() == [len(ids) for ids in copy.targets(examples)]
    assert report.source_tokens == copy.source_lengths(everything).sum()
    assert report.target_tokens == copy.target_lengths(everything).sum()


def test_a_pair_that_fits_exactly_stays_and_one_token_more_is_counted(tmp_path, tokenizers):
    longest = max(len(tokenizers.target.encode(target)) for _, target in ROWS)
    assert longest > max(len(tokenizers.source.encode(source)) for source, _ in ROWS)
    rows = [("", "empty"), *ROWS, ("b" * 6000, "long")]
    whole = write_shards(corpus_of(rows), tokenizers, tmp_path / "whole", max_tokens=longest + 1)
    assert whole.pairs == len(ROWS)
    assert whole.skipped == {"empty": 1, "too_long": 1}
    shards = Shards(tmp_path / "whole")
    assert shards.lines.tolist() == list(range(2, len(ROWS) + 2))
    less = write_shards(corpus_of(rows), tokenizers, tmp_path / "less", max_tokens=longest)
    assert less.skipped["too_many_tokens"] > 0
    assert less.pairs + sum(less.skipped.values()) == len(rows)


def test_each_copy_is_another_segmentation_of_the_same_lines(tmp_path, tokenizers):
    write_shards(corpus_of(ROWS), tokenizers, tmp_path, max_tokens=200, dropout=0.2, copies=3, seed=4)
    shards = Shards(tmp_path)
    assert len(shards.copies) == 3
    for epoch in range(6):
        sampled = SampledTokenizer(tokenizers.source, 0.2, derive_seed(4, epoch % 3))
        copy = shards.copy(epoch)
        assert seventh(copy).tolist() == [*sampled.encode(ROWS[7][0]), tokenizers.source.eos_id]
    texts = {tokenizers.source.decode(seventh(copy).tolist()) for copy in shards.copies}
    assert texts == {ROWS[7][0]}
    assert len({tuple(seventh(copy)) for copy in shards.copies}) == 3


def test_a_side_without_merges_is_the_same_in_every_copy(tmp_path):
    pair = tokenizers_of(ROWS, target_kind="characters", joint=False)
    write_shards(corpus_of(ROWS), pair, tmp_path, max_tokens=200, dropout=0.3, copies=3)
    shards = Shards(tmp_path)
    assert len({tuple(seventh(copy)) for copy in shards.copies}) == 3
    assert len({tuple(copy.targets(np.array([7]))[0]) for copy in shards.copies}) == 1


def test_shards_are_made_once_and_made_again_when_anything_differs(tmp_path, tokenizers, monkeypatch):
    folder = tmp_path / "shards"
    choices = {"max_tokens": 50, "dropout": 0.1, "copies": 2, "seed": 1}
    report = write_shards(corpus_of(ROWS), tokenizers, folder, **choices)
    made = []
    write = shards_file._write

    def counted(*arguments: object) -> object:
        made.append(arguments)
        return write(*arguments)

    monkeypatch.setattr(shards_file, "_write", counted)
    assert write_shards(corpus_of(ROWS), tokenizers, folder, **choices) == report
    assert not made
    for change in ({"max_tokens": 40}, {"seed": 2}, {"copies": 3}, {"dropout": 0.2}):
        write_shards(corpus_of(ROWS), tokenizers, folder, **{**choices, **change})
    write_shards(corpus_of(ROWS), tokenizers_of(ROWS[:200]), folder, **choices)
    write_shards(corpus_of(ROWS).first(100), tokenizers, folder, **choices)
    assert len(made) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shards"]


def test_without_dropout_the_seed_and_the_copies_change_nothing(tmp_path, tokenizers):
    write_shards(corpus_of(ROWS), tokenizers, tmp_path / "one", max_tokens=50, seed=1)
    write_shards(corpus_of(ROWS), tokenizers, tmp_path / "two", max_tokens=50, seed=2, copies=4)
    assert content(tmp_path / "one") == content(tmp_path / "two")


@pytest.mark.parametrize("damaged", ["shards.json", "copy-0.source.ids", "copy-0.target.starts", "lines"])
def test_damaged_shards_are_refused_and_made_again(tmp_path, tokenizers, damaged):
    folder = tmp_path / "shards"
    write_shards(corpus_of(ROWS), tokenizers, folder, max_tokens=50)
    whole = content(folder)
    for broken in (whole[damaged][:-1], None):
        (folder / damaged).unlink() if broken is None else (folder / damaged).write_bytes(broken)
        with pytest.raises(DataError, match="incomplete or damaged shards") as caught:
            Shards(folder)
        assert "\n" not in caught.value.message
        write_shards(corpus_of(ROWS), tokenizers, folder, max_tokens=50)
        assert content(folder) == whole


@pytest.mark.parametrize("byte", [0, 255])
@pytest.mark.parametrize("damaged", ["copy-0.source.ids", "copy-0.target.starts", "lines"])
def test_shards_of_the_right_size_and_other_numbers_are_reported_and_made_again(
    tmp_path, tokenizers, damaged, byte
):
    folder, messages = tmp_path / "shards", []
    write_shards(corpus_of(ROWS), tokenizers, folder, max_tokens=50)
    before = content(folder)
    middle = len(before[damaged]) // 2
    other = bytes([byte]) * 8
    (folder / damaged).write_bytes(before[damaged][:middle] + other + before[damaged][middle + 8 :])
    write_shards(corpus_of(ROWS), tokenizers, folder, max_tokens=50, say=messages.append)
    assert content(folder) == before
    [line] = messages
    assert f"{damaged} was changed after it was written" in line
    assert "written again" in line


def test_a_description_that_was_changed_is_refused(tmp_path, tokenizers):
    folder = tmp_path / "shards"
    write_shards(corpus_of(ROWS), tokenizers, folder, max_tokens=50, dropout=0.1, copies=3)
    text = (folder / "shards.json").read_text()
    assert text.count('"copies": 3') == 2
    (folder / "shards.json").write_text('"copies": 2'.join(text.rsplit('"copies": 3', 1)))
    with pytest.raises(DataError, match="its SHA-256 differs"):
        Shards(folder)


def test_a_corpus_of_which_nothing_is_left_is_an_error_with_its_counts(tmp_path, tokenizers):
    with pytest.raises(DataError, match=r"test: no pair is left to train on.*empty.*2") as caught:
        write_shards(corpus_of([("", "a"), (" ", "b")]), tokenizers, tmp_path / "shards", max_tokens=50)
    assert caught.value.hint
    assert not (tmp_path / "shards").exists()


def test_an_error_in_the_corpus_leaves_nothing_in_its_place(tmp_path, tokenizers):
    def rows() -> Iterator[Row]:
        yield from ROWS
        raise DataError("text:301: not UTF-8")

    with pytest.raises(DataError, match="text:301"):
        write_shards(Corpus("test", rows, LinePolicy()), tokenizers, tmp_path / "shards", max_tokens=50)
    assert not (tmp_path / "shards").exists()
    write_shards(corpus_of(ROWS), tokenizers, tmp_path / "shards", max_tokens=50)
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]


def test_a_preparation_that_was_killed_is_made_again(tmp_path, tokenizers):
    program = """if True:
        import runpy, sys, time
        from pathlib import Path
        test = runpy.run_path(sys.argv[1])
        def rows():
            yield from test["ROWS"]
            print("halfway", flush=True)
            time.sleep(60)
        corpus = test["Corpus"]("test", rows, test["LinePolicy"]())
        tokenizers = test["tokenizers_of"](test["ROWS"])
        test["shards_file"].CHUNK_PAIRS = 50
        test["write_shards"](corpus, tokenizers, Path(sys.argv[2]), max_tokens=50)
    """
    command = [sys.executable, "-c", program, __file__, str(tmp_path / "shards")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    assert [path.name for path in tmp_path.iterdir()] == ["shards.partial"]
    write_shards(corpus_of(ROWS), tokenizers, tmp_path / "shards", max_tokens=50)
    write_shards(corpus_of(ROWS), tokenizers, tmp_path / "untouched", max_tokens=50)
    assert content(tmp_path / "shards") == content(tmp_path / "untouched")


def test_memory_does_not_grow_with_the_corpus(tmp_path, tokenizers, monkeypatch):
    monkeypatch.setattr(shards_file, "CHUNK_PAIRS", 100)
    peaks = []
    for times in (2, 6):
        corpus = Corpus("test", lambda times=times: (row for _ in range(times) for row in ROWS), LinePolicy())
        folder = tmp_path / str(times)
        write_shards(corpus.first(10), tokenizers, tmp_path / "warm", max_tokens=50)
        tracemalloc.start()
        write_shards(corpus, tokenizers, folder, max_tokens=50)
        loader = Loader(PairExamples(folder, 0), LoaderSettings(batch_tokens=500, window=256), seed=1)
        assert sum(len(batch) for batch in loader.epoch(0)) == times * len(ROWS)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_vocabularies_beyond_65536_are_written_whole(tmp_path):
    rows: list[Row] = [
        (" ".join(f"w{n}" for n in range(start, start + 100)), "a") for start in range(0, 70_000, 100)
    ]
    pair = train_tokenizers(corpus_of(rows), TokenizerSettings(kind="words", vocab_size=80_000))
    write_shards(corpus_of(rows), pair, tmp_path, max_tokens=200)
    assert pair.source.vocab_size > 1 << 16
    copy = Shards(tmp_path).copy(0)
    assert pair.source.decode(copy.sources(np.array([len(rows) - 1]))[0].tolist()) == rows[-1][0]


def test_the_report_counts_what_was_skipped(tmp_path, tokenizers):
    write_shards(corpus_of([("", "a"), *ROWS]), tokenizers, tmp_path, max_tokens=50)
    description = json.loads((tmp_path / "shards.json").read_text("utf-8"))
    assert description["report"]["skipped"]["empty"] == 1
    assert description["made_from"]["max_tokens"] == 50
