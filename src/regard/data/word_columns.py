"""Reads tagged words in columns (CoNLL-2003, BIO files and the like) as CoNLL-U sentences.

Each line is a word: the first column is the word, the last its label. Columns are separated by tabs or
spaces; an empty line ends a sentence. Columns between, and lines that start a document (-DOCSTART-), are
dropped.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from regard.counted import counted
from regard.data.conllu import COLUMNS, NO_VALUE, Sentence, read_sentences
from regard.data.files import read_lines
from regard.errors import DataError

WordFormat = Literal["conllu", "columns"]

SAMPLED_LINES = 2000  # lines that are examined to detect the format
LABEL_COLUMN: Literal["xpos"] = "xpos"  # the CoNLL-U column for labels of any tag set
_DOCUMENT = "-DOCSTART-"
_SUFFIXES: dict[str, WordFormat] = {
    ".conllu": "conllu",
    ".conll": "columns",
    ".bio": "columns",
    ".iob": "columns",
    ".iob2": "columns",
}


def word_format(path: Path) -> WordFormat | None:
    """The format of tagged words in a file, by its suffix or its first lines; None for other files."""
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    lines = list(itertools.islice(read_lines(path), SAMPLED_LINES))
    if suffix == ".conllu" or _is_conllu(lines):
        return "conllu"
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if suffix in (".csv", ".jsonl", ".ndjson", ".json"):
        return None
    return "columns" if _is_columns(lines) else None


def named_as_words(file: str | Path) -> bool:
    """True if the name of a file is that of tagged words, as CoNLL-U or in columns."""
    return Path(str(file).lower().removesuffix(".gz")).suffix in _SUFFIXES


def read_words(path: Path, kind: WordFormat) -> Iterator[Sentence]:
    """The sentences of a file; the labels of a file in columns are in LABEL_COLUMN.

    Raises:
        DataError: a line does not follow the format; the message has its number.
    """
    return read_sentences(read_lines(path), str(path)) if kind == "conllu" else _read_columns(path)


def _read_columns(path: Path) -> Iterator[Sentence]:
    words: list[tuple[str, str]] = []
    width = number = 0
    for number, line in enumerate(read_lines(path), start=1):
        cells = _cells(line)
        if not cells or cells[0] == _DOCUMENT:
            if words:
                yield _sentence(words, number - len(words))
            words = []
            continue
        width = width or len(cells)
        if len(cells) < 2 or len(cells) != width:
            columns = counted(len(cells), "column")
            raise DataError(
                f"{path}:{number}: {columns}, but the first word has {width}"
                if len(cells) > 1 or width > 1
                else f"{path}:{number}: a word without a label",
                "give each word a line with its label, and an empty line after each sentence",
            )
        if cells[-1] == NO_VALUE:
            raise DataError(f"{path}:{number}: {NO_VALUE!r} is not a label", "use another name, such as O")
        words.append((cells[0], cells[-1]))
    if words:
        yield _sentence(words, number - len(words) + 1)


def _cells(line: str) -> list[str]:
    """The columns of a line. Words with a space are possible only if tabs separate the columns."""

    if "\t" in line:
        return [re.sub(r"\s+", "\u00a0", cell.strip()) for cell in line.rstrip("\t\r ").split("\t")]
    return line.split()


def _sentence(words: Sequence[tuple[str, str]], first_line: int) -> Sentence:
    place = COLUMNS.index(LABEL_COLUMN)
    rows = []
    for number, (word, label) in enumerate(words, start=1):
        cells = [str(number), word, *[NO_VALUE] * (len(COLUMNS) - 2)]
        cells[place] = label
        rows.append("\t".join(cells))
    return Sentence(lines=tuple(rows), words=tuple(range(len(rows))), first_line=first_line)


def _is_conllu(lines: Sequence[str]) -> bool:
    rows = [line for line in lines if line and not line.startswith("#")]
    return bool(rows) and rows[0].count("\t") == len(COLUMNS) - 1 and rows[0].startswith(("1\t", "1-"))


def _is_columns(lines: Sequence[str]) -> bool:
    """True if sentences end with empty lines, rows are of one width, and the last column has few values."""
    rows = [_cells(line) for line in lines if line.strip() and not line.startswith(_DOCUMENT)]
    inner = sum(not line.strip() for line in lines[:-1])
    if not rows or not inner or len(rows[0]) < 2 or any(len(cells) != len(rows[0]) for cells in rows):
        return False
    one_word = all(not re.search(r"\s", cell) for line in lines for cell in line.split("\t") if "\t" in line)
    return one_word and len({cells[-1] for cells in rows}) <= min(200, len(rows) / 4)
