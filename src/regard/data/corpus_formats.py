"""File formats of parallel corpora: each reads the rows of a file, which are pairs or problems."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.files import read_lines
from regard.data.json_lines import parse_record, text_field
from regard.errors import DataError
from regard.registry import Registry, naming_failures, refuse_not_callable, refuse_other_arguments


class Problem(NamedTuple):
    """Why a row is not a usable pair."""

    policy: str  # the field of `LinePolicy` that decides what happens to the row
    message: str
    side: int = 0  # of the file that has the problem; 0: source, 1: target
    reason: str | None = None  # as it is counted; None: the name of the policy


Row = tuple[str, str] | Problem
RowReader = Callable[[Path], Iterable[Row]]
LineParser = Callable[[str], Row]
# Both are made for source_field and target_field of CorpusSettings: columns of a table, keys of JSON.
Format = Callable[[str | None, str | None], RowReader]
LineFormat = Callable[[str | None, str | None], LineParser]


def aligned_lines(source: Path, target: Path) -> Iterator[Row]:
    """The pairs of two aligned files; a problem for each line that only one of them has."""
    sources, targets = read_lines(source), read_lines(target)
    for pairs, (left, right) in enumerate(itertools.zip_longest(sources, targets)):
        if left is not None and right is not None:
            yield left, right
            continue
        surplus = 1 + sum(1 for _ in itertools.chain(sources, targets))  # this line, and the rest of its file
        lines = (pairs, pairs + surplus) if left is None else (pairs + surplus, pairs)
        message = f"{source.name} has {lines[0]:,} lines, {target.name} has {lines[1]:,}"
        yield from itertools.repeat(Problem("unequal", message, side=int(left is None)), surplus)
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


def _by_line(line_format: LineFormat) -> Format:
    """The format of a file with a pair on each line."""
    return lambda *fields: lambda path: map(line_format(*fields), read_lines(path))


def _tsv(source_field: str | None, target_field: str | None) -> LineParser:
    columns = int(source_field or 0), int(target_field or 1)
    return lambda line: _tsv_pair(line, *columns)


def _jsonl(source_field: str | None, target_field: str | None) -> LineParser:
    keys = source_field or "source", target_field or "target"
    return lambda line: _json_pair(line, *keys)


_OWN: dict[str, Format] = {
    "text": _by_line(_tsv),  # never called: `aligned_lines` reads its two files; here the name is known
    "tsv": _by_line(_tsv),
    "jsonl": _by_line(_jsonl),
    "scan": _by_line(lambda *fields: _scan_pair),
    "cmudict": _by_line(lambda *fields: _cmudict_pair),
}
FORMATS: Registry[Format] = Registry("corpus format", _OWN, how="register_corpus_format of regard.data")


YIELD_PAIRS = "yield a source and a target at a time: yield source, target"


def register_corpus_format(
    name: str,
) -> Callable[[Callable[[Path], Iterable[tuple[str, str]]]], Callable[[Path], Iterable[tuple[str, str]]]]:
    """Make a file format of parallel corpora known by a name, for `format` in `[data.*]` of a recipe.

        @register_corpus_format("blank_lines")
        def read(path): ...  # yields a source and a target at a time

    The decorated function is called with the path, each time that the corpus is read, and yields pairs of
    texts in their order, without line ends. It raises DataError for a file that it cannot read. `read_lines`
    of regard.data reads UTF-8, gzip too.

    Raises:
        UserError: the name is empty or one of regard's own, or the function cannot be called with a path.
    """
    register = FORMATS.register(name)

    def add(read: Callable[[Path], Iterable[tuple[str, str]]]) -> Callable[[Path], Iterable[tuple[str, str]]]:
        refuse_not_callable(read, f"the corpus format {name!r}")
        refuse_other_arguments(read, f"the corpus format {name!r}", ("path",))
        register(lambda *fields: partial(_checked_pairs, name, read))
        return read

    return add


def _checked_pairs(name: str, read: RowReader, path: Path) -> Iterator[Row]:
    """What a registered format gives of a file.

    Raises:
        DataError: something is not two texts, or a text has kept its line end; or the format fails.
    """
    hint = "raise DataError of regard.errors with a message for a file that the format cannot read"
    with naming_failures(f"{path}: the corpus format {name!r}", read, hint, kind=DataError):
        yield from _checked_rows(name, read(path), path)


def _checked_rows(name: str, rows: Any, path: Path) -> Iterator[Row]:
    if not isinstance(rows, Iterable):
        raise DataError(f"the corpus format {name!r} gives {type(rows).__name__}, not pairs", YIELD_PAIRS)
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Problem) and not _is_pair(row):
            shown = f"{row!r:.60}"
            raise DataError(
                f"{path}: pair {number} of the corpus format {name!r} is {shown}, not two texts", YIELD_PAIRS
            )
        if not isinstance(row, Problem) and any(text.endswith("\n") for text in row):
            raise DataError(
                f"{path}: pair {number} of the corpus format {name!r} has a text with its line end",
                'remove it: line.rstrip("\\n"), or read the file by read_lines of regard.data',
            )
        yield row


def _is_pair(row: Any) -> bool:
    return isinstance(row, tuple | list) and len(row) == 2 and all(isinstance(text, str) for text in row)
