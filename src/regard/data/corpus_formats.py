"""File formats of parallel corpora: each reads the pairs of a file, and says which rows are not pairs."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from regard.data.files import read_lines
from regard.data.json_lines import parse_record, text_field
from regard.registry import Registry


class Problem(NamedTuple):
    """Why a row is not a usable pair."""

    reason: str  # the field of `LinePolicy` that applies
    why: str  # for messages
    side: int = 0  # 0: source, 1: target


Row = tuple[str, str] | Problem
# source_field and target_field of CorpusSettings -> what reads a file of the format
Format = Callable[[str | None, str | None], Callable[[Path], Iterable[Row]]]


def aligned_lines(source: Path, target: Path) -> Iterator[Row]:
    """The pairs of two aligned files; a row for each line that only one of them has."""
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


def _by_line(parser: Callable[[str | None, str | None], Callable[[str], Row]]) -> Format:
    """The format of a file with a pair on each line."""
    return lambda *fields: lambda path: map(parser(*fields), read_lines(path))


def _tsv(source_field: str | None, target_field: str | None) -> Callable[[str], Row]:
    columns = int(source_field or 0), int(target_field or 1)
    return lambda line: _tsv_pair(line, *columns)


def _jsonl(source_field: str | None, target_field: str | None) -> Callable[[str], Row]:
    keys = source_field or "source", target_field or "target"
    return lambda line: _json_pair(line, *keys)


_OWN: dict[str, Format] = {
    "text": _by_line(_tsv),
    "tsv": _by_line(_tsv),
    "jsonl": _by_line(_jsonl),
    "scan": _by_line(lambda *fields: _scan_pair),
    "cmudict": _by_line(lambda *fields: _cmudict_pair),
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
        register(lambda *fields: read)
        return read

    return add
