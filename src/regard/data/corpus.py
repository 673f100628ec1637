"""Parallel corpora: streams pairs of lines from files, with strict checks.

A line ends at "\\n" only: U+2028, U+0085, form feed and the like are text. Text must be valid UTF-8. A byte
order mark at the start of a file and a "\\r" at the end of a line are dropped; elsewhere both are text. A
gzipped file is recognised by its first bytes; a truncated one is an error. `LinePolicy` says whether other
bad lines are errors or skipped; skipped lines are counted by reason.
"""

import codecs
import gzip
import hashlib
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from regard.data.catalogue import find_file, is_spec
from regard.data.encodings import refuse_wide
from regard.data.json_lines import parse_record, text_field
from regard.data.synthetic import synthetic_pairs
from regard.errors import DataError, RecipeError, did_you_mean
from regard.registry import Registry

MAX_LINE_BYTES = 1 << 24  # a longer line is not a sentence, and must not fill the memory

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
        if self.max_characters < 1:
            raise RecipeError(f"max_characters = {self.max_characters} skips every line", "give 1 or more")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A source, its target and their line number, from 1."""

    source: str
    target: str
    line: int


class Problem(NamedTuple):
    """Why a row is not a usable pair."""

    reason: str  # the field of `LinePolicy` that applies
    why: str  # for messages
    side: int = 0  # 0: source, 1: target


Row = tuple[str, str] | Problem
Format = Callable[[CorpusSettings], Callable[[Path], Iterable[Row]]]  # -> what reads a file of the format


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
            problem = row if isinstance(row, Problem) else self._problem(*row)
            if problem is None:
                yield Pair(source=row[0], target=cast(str, row[1]), line=line)
            elif getattr(self._policy, problem.reason) == "skip":
                skipped[problem.reason] += 1
            else:
                place = self.files[min(problem.side, len(self.files) - 1)] if self.files else self.name
                raise DataError(
                    f"{place}:{line}: {problem.why}",
                    f'correct the file, or set lines.{problem.reason} = "skip" to skip such lines',
                )

    def _problem(self, source: str, target: str) -> Problem | None:
        limit = self._policy.max_characters
        for side, text in enumerate((source, target)):
            if len(text) > limit:
                return Problem("too_long", f"{len(text):,} characters, more than {limit:,}", side)
            if not text or text.isspace():
                return Problem("empty", "the line is empty", side)
            if "\0" in text or "\n" in text:
                return Problem("control", "a NUL" if "\0" in text else "a line feed inside the text", side)
            if not text.isascii() and _SURROGATE.search(text):
                return Problem("control", "a lone surrogate, which is not a character", side)
        return None

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
        read = FORMATS[settings.format](settings)
        return Corpus(path.name, lambda: read(path), policy, [path], settings)
    source, target = locate(settings.source or "", base), locate(settings.target or "", base)
    name = f"{source.name} - {target.name}"
    return Corpus(name, lambda: _aligned(source, target), policy, [source, target], settings)


def locate(spec: str, base: Path, *, once: bool = False) -> Path:
    """The path of `spec`: a path relative to `base`, or `NAME:FILE` of the catalogue.

    A pipe can be read only once: opening it again blocks or yields nothing. So it is refused unless the
    caller reads it only `once`.
    """
    path = base / Path(spec).expanduser()
    if path.exists():
        if not once and not path.is_dir() and not path.is_file():
            raise DataError(
                f"{path} is a pipe or a device, but data are read more than once",
                "write it to a file first and give that file",
            )
        return path
    if is_spec(spec):
        return find_file(spec)
    raise _missing(path)


def read_lines(path: Path) -> Iterator[str]:
    """Streams the lines of a UTF-8 file, plain or gzipped, without their line ends."""
    with _open(path) as plain:
        file = gzip.GzipFile(fileobj=plain) if plain.peek(2)[:2] == b"\x1f\x8b" else plain
        for number in itertools.count(1):
            try:
                raw = file.readline(MAX_LINE_BYTES + 1)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise DataError(
                    f"{path}:{number}: the compressed file is cut short or damaged",
                    "download or compress it again; `gzip -t` tests it",
                ) from error
            if not raw or (number == 1 and raw == codecs.BOM_UTF8):
                return
            if len(raw) > MAX_LINE_BYTES:
                raise DataError(
                    f"{path}:{number}: a line of more than {MAX_LINE_BYTES >> 20} MiB",
                    "a corpus has one sentence per line, ended by a line feed",
                )
            yield line_text(raw, str(path), number)


def count_lines(path: Path) -> int:
    """The number of lines that `read_lines` yields; 0 if a gzipped file is damaged."""
    with _open(path) as plain:
        file = gzip.GzipFile(fileobj=plain) if plain.peek(2)[:2] == b"\x1f\x8b" else plain
        lines, last = 0, b""
        try:
            while (block := file.read(1 << 20)) and not (block == codecs.BOM_UTF8 and not last):
                lines, last = lines + block.count(b"\n"), block
        except (EOFError, gzip.BadGzipFile, zlib.error):
            return 0
    return lines + bool(last and not last.endswith(b"\n"))


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes, not unpacked."""
    with _open(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def line_text(raw: bytes, place: str, number: int) -> str:
    """Decodes line `number` of the file or stream `place`, without line end and byte order mark."""
    if number == 1:
        refuse_wide(raw, place)
        raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{place}:{number}: not UTF-8 (byte 0x{raw[error.start]:02x} at byte {error.start + 1})",
            "convert the file: iconv -f LATIN1 -t UTF-8",
        ) from error


def _open(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "give a readable file") from error


def _missing(path: Path) -> DataError:
    neighbours = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
    return DataError(
        f"no such file: {path}",
        did_you_mean(path.name, neighbours) if 0 < len(neighbours) <= 12 else f"searched in {path.parent}",
    )


def _aligned(source: Path, target: Path) -> Iterator[Row]:
    sources, targets = read_lines(source), read_lines(target)
    for line, (left, right) in enumerate(itertools.zip_longest(sources, targets)):
        if left is not None and right is not None:
            yield left, right
            continue
        surplus = 1 + sum(1 for _ in itertools.chain(sources, targets))
        lines = (line, line + surplus) if left is None else (line + surplus, line)
        why = f"{source.name} has {lines[0]:,} lines, {target.name} has {lines[1]:,}"
        yield from itertools.repeat(Problem("unequal", why, side=int(left is None)), surplus)
        return


def _tsv_pair(line: str, source: int, target: int) -> Row:
    cells = line.split("\t")
    if len(cells) <= max(source, target):
        return Problem("malformed", f"{len(cells)} columns, so there is no column {max(source, target)}")
    return cells[source], cells[target]


def _json_pair(line: str, source: str, target: str) -> Row:
    try:
        record = parse_record(line)
        return text_field(record, source), text_field(record, target)
    except ValueError as error:
        return Problem("malformed", str(error))


def _scan_pair(line: str) -> Row:
    """A pair of SCAN (Lake and Baroni 2018): `IN: jump twice OUT: I_JUMP I_JUMP`."""
    found = re.fullmatch(r"IN: (.*?) OUT: (.*)", line)
    return (found[1], found[2].rstrip()) if found else Problem("malformed", "not `IN: ... OUT: ...`")


def _cmudict_pair(line: str) -> Row:
    """A pair of the CMU dictionary, `word(2) W ER1 D # comment`: the headword and its phonemes."""
    word, _, phonemes = line.partition(" # ")[0].rstrip().partition(" ")
    if not phonemes:
        return Problem("malformed", "no phonemes after the headword")
    return re.sub(r"\(\d+\)\Z", "", word), phonemes


def _by_line(parser: Callable[[CorpusSettings], Callable[[str], Row]]) -> Format:
    """The format of a file with a pair on each line."""
    return lambda settings: lambda path: map(parser(settings), read_lines(path))


def _tsv(settings: CorpusSettings) -> Callable[[str], Row]:
    columns = int(settings.source_field or 0), int(settings.target_field or 1)
    return lambda line: _tsv_pair(line, *columns)


def _jsonl(settings: CorpusSettings) -> Callable[[str], Row]:
    keys = settings.source_field or "source", settings.target_field or "target"
    return lambda line: _json_pair(line, *keys)


_OWN: dict[str, Format] = {
    "text": _by_line(_tsv),
    "tsv": _by_line(_tsv),
    "jsonl": _by_line(_jsonl),
    "scan": _by_line(lambda settings: _scan_pair),
    "cmudict": _by_line(lambda settings: _cmudict_pair),
}
FORMATS: Registry[Format] = Registry("corpus format", _OWN, how="register_corpus_format of regard.data")


def register_corpus_format(
    name: str,
) -> Callable[[Callable[[Path], Iterable[tuple[str, str]]]], Callable[[Path], Iterable[tuple[str, str]]]]:
    """Make a file format of parallel corpora known by a name, for `format` in `[data.*]` of a recipe.

        @register_corpus_format("blank_lines")
        def read(path): ...  # yields a source and a target at a time

    The decorated function is called with the path, each time that the corpus is read, and yields pairs of
    texts in their order. It raises DataError for a file that it cannot read. `read_lines` of regard.data
    reads UTF-8, gzip too.

    Raises:
        UserError: the name is empty, or one of regard's own.
    """
    register = FORMATS.register(name)

    def add(read: Callable[[Path], Iterable[tuple[str, str]]]) -> Callable[[Path], Iterable[tuple[str, str]]]:
        register(lambda settings: read)
        return read

    return add
