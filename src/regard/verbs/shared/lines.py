"""Lines of text: of a file, of a data set, or of a pipe as they arrive."""

import io
import os
import select
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from regard.data.files import MAX_LINE_BYTES, STDIN, count_lines, line_text, locate, read_lines
from regard.errors import DataError
from regard.verbs.shared.file_formats import note_markup, note_tabs, refuse_table, without_tabs
from regard.verbs.shared.table_cells import named_table, table_cells

Line = TypeVar("Line")

MOST = 1 << 18  # bytes of one read
CHUNK_LINES = 1024  # lines that are processed together
OWN_FILE = "write its column as lines of a file of its own"


def stream_lines(file: str | Path, *, notes: bool = True) -> Iterator[str]:
    """The lines of a file, plain or gzipped, one at a time; `NAME:FILE` is a file of a known data set.

    It `notes` a file whose name says that its lines have markup or columns.

    Raises:
        DataError: the file does not exist (at once), or is not UTF-8 (at that line).
    """
    lines = read_lines(locate(str(file), Path(), once=True))
    if not notes:
        return lines
    note_markup(file)
    return note_tabs(file, lines)


def texts_of(file: str | Path, column: str | None, *, as_written: bool = False) -> Iterator[str]:
    """The lines of a file, or the cells of a `column` of a table, for each record one.

    A cell is one line, unless it is read `as_written`.

    Raises:
        DataError: as `stream_lines`; or the table has no such column.
        UserError: the file is a table by its name, and no column is given; of .tsv at the first tab.
    """
    if column is None:
        refuse_table(file)
        note_markup(file)
        return without_tabs(file, stream_lines(file, notes=False))
    table = named_table(file, column)
    places = table.columns([column])
    return (text for _, [text] in table_cells(table, places, empty=True, as_written=as_written))


def document_of(file: str | Path | None) -> str:
    """All of a file as it is written, with its line ends and byte order mark; None is standard input.

    Raises:
        DataError: as `stream_lines`.
    """
    if file is not None:
        return "".join(read_lines(locate(str(file), Path(), once=True), as_written=True))
    data = b"".join(iter(lambda: _ready(0), b""))
    lines = enumerate(io.BytesIO(data), start=1)
    return "".join(line_text(raw, STDIN, number, as_written=True) for number, raw in lines)


def count_of(file: str | Path) -> int:
    """The number of lines of a file; 0 for a pipe or a device, which can be read only once."""
    path = locate(str(file), Path(), once=True)
    return count_lines(path) if path.is_file() else 0


def chunks(lines: Iterable[Line], size: int = CHUNK_LINES) -> Iterator[list[Line]]:
    """The lines in lists of `size`."""
    lines = iter(lines)
    return iter(lambda: list(islice(lines, size)), [])


def numbered(chunks: Iterable[Sequence[Line]], first: int = 1) -> Iterator[tuple[int, Sequence[Line]]]:
    """Each chunk with the number of its first line, from `first`."""
    for chunk in chunks:
        yield first, chunk
        first += len(chunk)


def lines_of(file: str | Path, *, tables: str = OWN_FILE) -> list[str]:
    """All lines of a file.

    Raises:
        DataError: as `stream_lines`.
        UserError: the file is a table by its name, of which `tables` says how it is read.
    """
    refuse_table(file, tables)
    note_markup(file)
    return list(without_tabs(file, stream_lines(file, notes=False), tables))


def references_of(files: str | Path | Iterable[str | Path], *, tables: str = OWN_FILE) -> list[list[str]]:
    """All lines of each file of references, one file or several; as `lines_of`."""
    return [lines_of(file, tables=tables) for file in ([files] if isinstance(files, str | Path) else files)]


def arriving(descriptor: int) -> Iterator[list[str]]:
    """The lines of a pipe as they arrive: those that are there already, without waiting for more.

    A program that writes one line and waits gets its answer; one that writes many gets them in batches.
    """
    number, rest = 0, b""
    while data := _ready(descriptor):
        *whole, rest = (rest + data).split(b"\n")
        yield from _decoded(whole, number)
        number += len(whole)
        if len(rest) > MAX_LINE_BYTES:
            raise DataError(
                f"{STDIN}:{number + 1}: a line of more than {MAX_LINE_BYTES >> 20} MiB", "one sentence a line"
            )
    yield from _decoded([rest] if rest else [], number)


def _ready(descriptor: int) -> bytes:
    """What can be read now, about MOST bytes. Waits for the first byte only; empty at the end."""
    data = os.read(descriptor, MOST)
    while 0 < len(data) < MOST and _more_is_there(descriptor):
        more = os.read(descriptor, MOST)
        if not more:
            break
        data += more
    return data


def _more_is_there(descriptor: int) -> bool:
    """True if a read would not wait. Windows cannot tell for a pipe."""
    return sys.platform != "win32" and bool(select.select([descriptor], [], [], 0.01)[0])


def _decoded(whole: list[bytes], before: int) -> Iterator[list[str]]:
    """The lines as text, in chunks; those before a line that is not UTF-8 come before its error."""
    lines: list[str] = []
    for number, raw in enumerate(whole, start=before + 1):
        try:
            lines.append(line_text(raw, STDIN, number))
        except DataError:
            yield lines
            raise
        if len(lines) == CHUNK_LINES:
            yield lines
            lines = []
    if lines:
        yield lines
