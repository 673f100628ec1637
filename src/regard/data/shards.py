"""Shards: a corpus tokenised once into memory-mapped files.

The folder holds `shards.json` (counts, checksums and the inputs) and, for each sampled segmentation
`copy-N`, the concatenated ids of both sides with the offsets of the examples. It is written to a temporary
folder and renamed when complete, so an interrupted preparation is made again. Existing shards of the same
corpus, tokenisers and settings are reused if their checksums are right.
"""

import itertools
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar, runtime_checkable

import numpy as np

from regard.data.checksums import checksums, dump_with_checksum, load_with_checksum, refuse_changed
from regard.data.corpus import Corpus, Pair
from regard.data.corpus_mixture import corpora_of
from regard.data.noise import SampledTokenizer, derive_seed
from regard.data.os_errors import os_errors, reading
from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.errors import DataError

SHARDS_VERSION = 2  # 1 had no checksums
CHUNK_PAIRS = 2048  # pairs that are tokenised at a time
SIDES = ("source", "target")


@dataclass(frozen=True, kw_only=True)
class ShardReport:
    """The counts of tokenised data; tokens are those of copy 0, special tokens included."""

    pairs: int
    source_tokens: int
    target_tokens: int
    skipped: dict[str, int]  # pairs by reason


def write_shards(
    corpus: Corpus,
    tokenizers: TokenizerPair,
    folder: Path,
    *,
    max_tokens: int,
    dropout: float = 0.0,
    copies: int = 1,
    seed: int = 0,
    say: Callable[[str], None] | None = None,
) -> ShardReport:
    """Tokenises `corpus` into `folder`; with `dropout`, into `copies` sampled segmentations.

    A pair with a side of more than `max_tokens` tokens, eos included, is skipped in every copy and counted as
    `too_many_tokens`. Damaged shards are made again, with a message to `say`.
    """
    copies = copies if dropout else 1
    made_from = {
        "format_version": SHARDS_VERSION,
        "corpus": corpus.fingerprint(),
        "tokenizers": tokenizers.digest(),
        "max_tokens": max_tokens,
        "dropout": dropout,
        "copies": copies,
        "seed": seed if dropout else 0,
    }
    present = load_intact(lambda: Shards(folder), folder, made_from, say)
    if present is not None:
        return present.report
    with new_folder(folder) as partial:
        report, sizes = _write(
            corpus, segmenters(tokenizers, dropout, copies, seed), partial, tokenizers, max_tokens
        )
        if not report.pairs:
            raise DataError(
                f"{corpus.name}: no pair is left to train on (skipped: {report.skipped or 'none'})",
                "check the files, max_characters and max_tokens",
            )
        description = {
            "made_from": made_from,
            "report": asdict(report),
            "copies": copies,
            **({"corpora": sizes} if len(sizes) > 1 else {}),
            "files": checksums(partial),
        }
        (partial / "shards.json").write_text(dump_with_checksum(description), "utf-8")
    return report


@runtime_checkable
class Preparation(Protocol):
    """Tokenised data in a folder: its inputs, and the SHA-256 of each file."""

    made_from: dict[str, object]
    files: dict[str, str]


Prepared = TypeVar("Prepared", bound=Preparation)


def load_intact(
    load: Callable[[], Prepared],
    folder: Path,
    made_from: Mapping[str, object],
    say: Callable[[str], None] | None,
) -> Prepared | None:
    """The tokenised data in a folder; None if there is none, it has other inputs, or it is damaged."""
    if not folder.exists():
        return None
    try:
        present = load()
        if present.made_from != made_from:
            return None
        refuse_changed(folder, present.files)
    except DataError as error:
        if say:
            say(f"{error.message}; it is written again")
        return None
    return present


class Shards:
    """A folder of shards as memory-mapped arrays; examples are indexed from 0.

    Attributes:
        sizes: the number of examples of each corpus, one after the other.
    """

    def __init__(self, folder: Path) -> None:
        try:
            description = load_with_checksum((folder / "shards.json").read_text("utf-8"))
            self.made_from: dict[str, object] = description["made_from"]
            self.files: dict[str, str] = description.get("files", {})
            self.report = ShardReport(**description["report"])
            self.sizes: list[int] = description.get("corpora", [self.report.pairs])
            self.copies = [
                Copy.open(folder, number, self.report.pairs) for number in range(description["copies"])
            ]
            self.lines = memory_mapped(folder / "lines", np.int64, len(self))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{folder}: incomplete or damaged shards ({str(error).splitlines()[0]})",
                "remove the folder: the next run writes it again",
            ) from error

    def __len__(self) -> int:
        return self.report.pairs

    def copy(self, epoch: int) -> "Copy":
        """The segmentation for an epoch."""
        return self.copies[epoch % len(self.copies)]

    def mixed_copies(self) -> "MixedCopies":
        """All segmentations as one."""
        return MixedCopies(self.copies, len(self))


class Copy:
    """One segmentation: sources `ids + [eos]` and targets `[bos] + ids + [eos]`.

    Args:
        ids: of each side, those of all examples in a row.
        starts: of each side, where each example begins, and the end.
    """

    def __init__(self, ids: Sequence[np.ndarray], starts: Sequence[np.ndarray]) -> None:
        self._ids, self._starts = ids, starts

    @classmethod
    def open(cls, folder: Path, number: int, pairs: int) -> "Copy":
        """A segmentation of a folder of shards, memory-mapped."""
        starts = [
            memory_mapped(folder / f"copy-{number}.{side}.starts", np.int64, pairs + 1) for side in SIDES
        ]
        ids = []
        for side, ends in zip(SIDES, starts, strict=True):
            path = folder / f"copy-{number}.{side}.ids"
            dtype = np.uint16 if path.stat().st_size == 2 * ends[-1] else np.uint32
            ids.append(memory_mapped(path, dtype, int(ends[-1])))
        return cls(ids, starts)

    def sources(self, examples: np.ndarray) -> list[np.ndarray]:
        return self._sequences(0, examples)

    def targets(self, examples: np.ndarray) -> list[np.ndarray]:
        return self._sequences(1, examples)

    def source_lengths(self, examples: np.ndarray) -> np.ndarray:
        return self._starts[0][examples + 1] - self._starts[0][examples]

    def target_lengths(self, examples: np.ndarray) -> np.ndarray:
        return self._starts[1][examples + 1] - self._starts[1][examples]

    def _sequences(self, side: int, examples: np.ndarray) -> list[np.ndarray]:
        starts, ids = self._starts[side], self._ids[side]
        return [
            ids[start:stop]
            for start, stop in zip(starts[examples].tolist(), starts[examples + 1].tolist(), strict=True)
        ]


class MixedCopies:
    """Several segmentations of `pairs` examples as one: example n of segmentation c is n + c * pairs."""

    def __init__(self, copies: Sequence[Copy], pairs: int) -> None:
        self._copies, self._pairs = copies, pairs

    def sources(self, examples: np.ndarray) -> list[np.ndarray]:
        return [copy.sources(places)[0] for copy, places in self._single(examples)]

    def targets(self, examples: np.ndarray) -> list[np.ndarray]:
        return [copy.targets(places)[0] for copy, places in self._single(examples)]

    def source_lengths(self, examples: np.ndarray) -> np.ndarray:
        return self._lengths(examples, Copy.source_lengths)

    def target_lengths(self, examples: np.ndarray) -> np.ndarray:
        return self._lengths(examples, Copy.target_lengths)

    def _single(self, examples: np.ndarray) -> Iterator[tuple[Copy, np.ndarray]]:
        """The segmentation of each example, and its place in it."""
        copies, places = np.divmod(examples, self._pairs)
        for copy, place in zip(copies.tolist(), places[:, None], strict=True):
            yield self._copies[copy], place

    def _lengths(
        self, examples: np.ndarray, lengths_of: Callable[[Copy, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        copies, places = np.divmod(examples, self._pairs)
        found = np.zeros(len(examples), np.int64)
        for number, copy in enumerate(self._copies):
            found[copies == number] = lengths_of(copy, places[copies == number])
        return found


def memory_mapped(path: Path, dtype: type[np.integer], size: int) -> np.ndarray:
    """A memory-mapped file as a plain array: slices of `memmap` itself take ten times as long."""
    return np.asarray(np.memmap(path, dtype, "r", shape=(size,)))


Segmenter = Tokenizer | SampledTokenizer


class _CopyWriter:
    """Appends examples to the four files of one copy."""

    def __init__(self, stack: ExitStack, folder: Path, number: int, tokenizers: TokenizerPair) -> None:
        def opened(name: str) -> BinaryIO:
            return stack.enter_context((folder / f"copy-{number}.{name}").open("wb"))

        self._special_tokens = special_tokens(tokenizers)
        self._ids = [opened(f"{side}.ids") for side in SIDES]
        self._starts = [opened(f"{side}.starts") for side in SIDES]
        self._dtypes = id_types(tokenizers)
        self.tokens = [0, 0]
        for file in self._starts:
            file.write(np.int64(0).tobytes())

    def append(self, sequences: Sequence[Sequence[list[int]]]) -> None:
        """Writes the ids of the sources and targets of some examples."""
        for side in range(len(SIDES)):
            before, after = self._special_tokens[side]
            whole = [before + ids + after for ids in sequences[side]]
            ends = self.tokens[side] + np.cumsum([len(ids) for ids in whole], dtype=np.int64)
            flat = np.fromiter(itertools.chain.from_iterable(whole), self._dtypes[side])
            self._ids[side].write(flat.tobytes())
            self._starts[side].write(ends.tobytes())
            self.tokens[side] += len(flat)


def special_tokens(tokenizers: TokenizerPair) -> tuple[tuple[list[int], list[int]], ...]:
    """The ids before and after those of a text, for each side."""
    source, target = tokenizers.source, tokenizers.target
    return ([], [source.eos_id]), ([target.bos_id], [target.eos_id])


def id_types(tokenizers: TokenizerPair) -> list[np.dtype[Any]]:
    """The type of the ids of each side on disk."""
    return [id_type(tokenizers.source), id_type(tokenizers.target)]


def id_type(tokenizer: Tokenizer) -> np.dtype[Any]:
    """The type of ids on disk."""
    return np.dtype(np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32)


def segmenters(
    tokenizers: TokenizerPair, dropout: float, copies: int, seed: int
) -> list[tuple[Segmenter, Segmenter]]:
    """What tokenises source and target for each copy; without `dropout` there is one."""
    if not dropout:
        return [(tokenizers.source, tokenizers.target)]
    seeds = [derive_seed(seed, copy) for copy in range(copies)]
    sources = _sampled_segmenters(tokenizers.source, dropout, seeds)
    targets = sources if tokenizers.joint else _sampled_segmenters(tokenizers.target, dropout, seeds)
    return list(zip(sources, targets, strict=True))


def _sampled_segmenters(tokenizer: Tokenizer, dropout: float, seeds: Sequence[int]) -> list[Segmenter]:
    """A segmenter for each copy; a tokeniser without merges is the same in all."""
    if not tokenizer.merges():
        return [tokenizer for _ in seeds]
    return [SampledTokenizer(tokenizer, dropout, seed_of_copy) for seed_of_copy in seeds]


def _write(
    corpus: Corpus,
    pairs_of_segmenters: Sequence[tuple[Segmenter, Segmenter]],
    folder: Path,
    tokenizers: TokenizerPair,
    max_tokens: int,
) -> tuple[ShardReport, list[int]]:
    """Writes the pairs; the counts of all, and the number of pairs of each corpus."""
    corpora = corpora_of(corpus)
    sizes, too_many = [0] * len(corpora), 0
    with ExitStack() as stack:
        writers = [_CopyWriter(stack, folder, copy, tokenizers) for copy in range(len(pairs_of_segmenters))]
        lines = stack.enter_context((folder / "lines").open("wb"))
        for number, chunk in _chunks(corpora):
            texts = [pair.source for pair in chunk], [pair.target for pair in chunk]
            copies, kept = tokenised(pairs_of_segmenters, texts, max_tokens)
            for writer, sides in zip(writers, copies, strict=True):
                writer.append([[side[place] for place in kept] for side in sides])
            lines.write(np.array([chunk[place].line for place in kept], np.int64).tobytes())
            sizes[number] += len(kept)
            too_many += len(chunk) - len(kept)
    skipped = sum((each.skipped for each in corpora), Counter(too_many_tokens=too_many))
    source_tokens, target_tokens = writers[0].tokens
    report = ShardReport(
        pairs=sum(sizes), source_tokens=source_tokens, target_tokens=target_tokens, skipped=dict(skipped)
    )
    return report, sizes


def tokenised(
    pairs_of_segmenters: Sequence[tuple[Segmenter, Segmenter]],
    texts: Sequence[list[str]],
    max_tokens: int,
) -> tuple[list[list[list[list[int]]]], list[int]]:
    """The ids of sources and targets in each copy, and the places of the pairs that are short enough."""
    copies = [
        [segmenter.encode_batch(side) for segmenter, side in zip(both, texts, strict=True)]
        for both in pairs_of_segmenters
    ]
    kept = [
        place
        for place in range(len(texts[0]))
        if all(len(side[place]) < max_tokens for sides in copies for side in sides)
    ]
    return copies, kept


def _chunks(corpora: Sequence[Corpus]) -> Iterator[tuple[int, list[Pair]]]:
    """The pairs of several corpora, some at a time, with the number of their corpus."""
    for number, corpus in enumerate(corpora):
        pairs = iter(reading(corpus, corpus.name))
        while chunk := list(itertools.islice(pairs, CHUNK_PAIRS)):
            yield number, chunk


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """An empty folder to write to, which at the end is moved to `folder`, in place of an earlier one."""
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with os_errors("write", folder):
        partial.mkdir(parents=True)
        yield partial
        for path in partial.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        former = folder.with_name(f"{folder.name}.former")
        shutil.rmtree(former, ignore_errors=True)
        if folder.exists():
            folder.rename(former)
        partial.rename(folder)
        shutil.rmtree(former, ignore_errors=True)
