"""Parallel corpora: streams pairs of lines from files, with strict checks.

What is not UTF-8 is an error (`files.py`). `LinePolicy` says whether other bad lines are errors or skipped;
skipped lines are counted by reason.
"""

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

from regard.data.corpus_formats import FORMATS, Problem, Row, aligned_lines
from regard.data.files import file_digest, locate
from regard.data.synthetic import SEQUENCE_TASKS, synthetic_pairs
from regard.errors import DataError, RecipeError
from regard.recipe import check_types

Policy = Literal["error", "skip"]


@dataclass(frozen=True, kw_only=True)
class CorpusSettings:
    """The source of the pairs: two aligned files, one file with both sides, or a synthetic task.

    A path is relative to the recipe; `NAME:FILE` is a file of the catalogue. `source_field` and
    `target_field` are columns (from 0) of a `tsv` file and keys of a `jsonl` file.
    """

    source: str | None = None  # the file of the source lines
    target: str | None = None  # the file of the target lines, aligned with `source`
    file: str | None = None  # one file with both sides, instead of `source` and `target`
    format: str = "text"  # tsv, jsonl, scan, cmudict, or a registered one
    source_field: str | None = None
    target_field: str | None = None
    synthetic: str | None = None  # a task whose pairs are generated, instead of files
    size: int = 10_000  # pairs of a synthetic task
    seed: int = 0  # of a synthetic task: another seed gives other pairs
    # the part of a synthetic task; no part has a pair of another
    split: Literal["train", "valid", "test"] = "train"
    languages: tuple[str, ...] = ()  # of the synthetic task "dates": languages of the dates
    length: int = 16  # of synthetic sequences: their length
    symbols: int = 10  # of synthetic sequences: the number of different symbols

    def __post_init__(self) -> None:
        check_types(self)
        if self.format not in FORMATS:
            raise RecipeError(f"format = {self.format!r} is unknown", FORMATS.hint(self.format))
        places = [self.source is not None or self.target is not None, self.file is not None]
        if sum(places) + (self.synthetic is not None) != 1:
            raise RecipeError(
                "a corpus needs exactly one source",
                "give source and target, or file and format, or synthetic",
            )
        if places[0] and (self.source is None or self.target is None):
            missing = "source" if self.source is None else "target"
            raise RecipeError(f"a corpus of two files has no {missing}", f"give {missing} too")
        if places[0] and self.format != "text":
            raise RecipeError(
                f"format = {self.format!r} reads one file, not source and target", "give file instead"
            )
        if places[1] and self.format == "text":
            raise RecipeError("file needs a format", "give format = 'tsv', 'jsonl', 'scan' or 'cmudict'")
        if self.format == "tsv":
            for name in ("source_field", "target_field"):
                value = getattr(self, name)
                if value is not None and not value.isdecimal():
                    raise RecipeError(
                        f"{name} = {value!r} is not a column of a tsv file", "columns are numbered from 0"
                    )
        if self.synthetic is not None and self.size < 1:
            raise RecipeError(f"size = {self.size} makes no examples", "give 1 or more")
        self._refuse_unused()

    def _refuse_unused(self) -> None:
        """Raises a RecipeError for a setting of another kind of corpus, unless it has its default."""
        has_fields = self.file is not None and self.format in ("tsv", "jsonl")
        for is_used, names, kind in (
            (has_fields, ("source_field", "target_field"), "a file in format tsv or jsonl"),
            (self.synthetic is not None, ("size", "seed", "split"), "synthetic tasks"),
            (self.synthetic == "dates", ("languages",), "the synthetic task dates"),
            (
                self.synthetic in SEQUENCE_TASKS,
                ("length", "symbols"),
                f"the synthetic tasks {', '.join(SEQUENCE_TASKS)}",
            ),
        ):
            for name in names:
                value = getattr(self, name)
                if not is_used and value != getattr(CorpusSettings, name):
                    raise RecipeError(f"{name} = {value!r} is a setting of {kind}", "leave it out")


@dataclass(frozen=True, kw_only=True)
class LinePolicy:
    """What happens to a line that cannot be used: "skip" counts it, "error" stops with its line number.

    `empty`: a side without a visible character. `too_long`: a side of more than `max_characters`, before
    tokenisation. `control`: NUL, or a line feed or a lone surrogate in a JSON string. `malformed`: missing
    columns or keys. `unequal`: lines that only one of two files has.
    """

    empty: Policy = "skip"
    too_long: Policy = "skip"
    control: Policy = "skip"
    malformed: Policy = "error"
    unequal: Policy = "error"
    max_characters: int = 5000

    def __post_init__(self) -> None:
        check_types(self)
        if self.max_characters < 1:
            raise RecipeError(f"max_characters = {self.max_characters} skips every line", "give 1 or more")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A source, its target and their line number, from 1."""

    source: str
    target: str
    line: int


class Corpus:
    """Pairs that can be iterated repeatedly; `skipped` counts the lines that the latest iteration skipped.

    `settings` is the dataclass that describes the corpus; it is part of the fingerprint.
    """

    def __init__(
        self,
        name: str,
        rows: Callable[[], Iterable[Row]],
        policy: LinePolicy,
        files: Sequence[Path] = (),
        settings: Any = None,
        limit: int | None = None,
        first_line: int = 1,
    ) -> None:
        self.name = name
        self.files = tuple(files)
        self.skipped: Counter[str] = Counter()
        self._rows = rows
        self._policy = policy
        self._settings = settings
        self._limit = limit
        self._first_line = first_line

    def first(self, pairs: int) -> "Corpus":
        """The first pairs of the corpus, as a corpus."""
        return Corpus(
            self.name, self._rows, self._policy, self.files, self._settings, pairs, self._first_line
        )

    def __iter__(self) -> Iterator[Pair]:
        return itertools.islice(self._pairs(), self._limit)

    def _pairs(self) -> Iterator[Pair]:
        self.skipped = skipped = Counter[str]()
        for line, row in enumerate(self._rows(), start=self._first_line):
            problem = row if isinstance(row, Problem) else problem_of(*row, self._policy.max_characters)
            if problem is None:
                yield Pair(source=row[0], target=cast(str, row[1]), line=line)
            elif getattr(self._policy, problem.policy) == "skip":
                skipped[problem.reason or problem.policy] += 1
            else:
                place = self.files[min(problem.side, len(self.files) - 1)] if self.files else self.name
                raise DataError(
                    f"{place}:{line}: {problem.message}",
                    f'correct it; a recipe skips such lines by data.lines.{problem.policy} = "skip"',
                )

    def fingerprint(self) -> str:
        """A digest of everything that determines the pairs; the files' paths are not part of it."""
        digest = hashlib.sha256(repr((self._policy, self._limit)).encode())
        if self._settings is not None:
            choices = asdict(self._settings)
            digest.update(
                repr({name: choices[name] for name in choices if name not in _PATH_FIELDS}).encode()
            )
        for path in self.files:
            digest.update(bytes.fromhex(file_digest(path)))
        return digest.hexdigest()


def problem_of(source: str, target: str, max_characters: int) -> Problem | None:
    """Why a pair cannot be used; None if it can."""
    for side, text in enumerate((source, target)):
        if len(text) > max_characters:
            return Problem("too_long", f"{len(text):,} characters, more than {max_characters:,}", side)
        if not text or text.isspace():
            return Problem("empty", "the line is empty", side)
        if "\0" in text or "\n" in text:
            return Problem("control", "a NUL" if "\0" in text else "a line feed inside the text", side)
        if not text.isascii() and _SURROGATE.search(text):
            return Problem("control", "a lone surrogate, which is not a character", side)
    return None


_SURROGATE = re.compile("[\ud800-\udfff]")
_PATH_FIELDS = {"source", "target", "file"}


def open_corpus(settings: CorpusSettings, policy: LinePolicy, base: Path) -> Corpus:
    """The corpus that `settings` describe; relative paths start at the folder `base`."""
    if settings.synthetic is not None:
        task = settings.synthetic

        def rows() -> Iterator[Row]:
            return synthetic_pairs(
                task,
                size=settings.size,
                seed=settings.seed,
                languages=settings.languages,
                length=settings.length,
                symbols=settings.symbols,
                split=settings.split,
            )

        return Corpus(task, rows, policy, settings=settings)
    if settings.file is not None:
        path = locate(settings.file, base)
        read = FORMATS[settings.format](settings.source_field, settings.target_field)
        return Corpus(path.name, lambda: read(path), policy, [path], settings)
    source, target = locate(settings.source or "", base), locate(settings.target or "", base)
    name = f"{source.name} - {target.name}"
    return Corpus(name, lambda: aligned_lines(source, target), policy, [source, target], settings)
