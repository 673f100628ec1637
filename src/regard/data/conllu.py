"""CoNLL-U files: strict reading, and writing with one column changed.

The format (universaldependencies.org/format.html): a sentence is comments, then lines of ten tab-separated
columns, then an empty line. Words are numbered 1, 2, ... A range ("4-5") is a multiword token that covers
the next words; an empty node ("8.1") is a word that is not written. Neither counts as a word.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from regard.data.files import file_digest, locate, read_lines
from regard.errors import DataError

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
LabelColumn = Literal["lemma", "upos", "xpos", "feats", "deprel"]  # the columns that can hold labels
NO_VALUE = "_"  # the value of an empty column

_WORD = re.compile(r"[1-9]\d*")
_RANGE = re.compile(r"([1-9]\d*)-([1-9]\d*)")
_EMPTY_NODE = re.compile(r"(0|[1-9]\d*)\.([1-9]\d*)")


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence of a CoNLL-U file: all of its lines, and which of them are words."""

    lines: tuple[str, ...]  # without line ends and without the empty line at the end
    words: tuple[int, ...]  # indices into `lines`
    first_line: int  # line number in the file, from 1

    def __len__(self) -> int:
        """The number of words."""
        return len(self.words)

    def column(self, name: str) -> tuple[str, ...]:
        """The values of a column, one for each word."""
        place = COLUMNS.index(name)
        return tuple(self.lines[word].split("\t")[place] for word in self.words)

    @property
    def forms(self) -> tuple[str, ...]:
        """The words as they are written."""
        return self.column("form")

    def with_column(self, name: str, values: Sequence[str]) -> "Sentence":
        """A copy of the sentence with one new value per word in a column."""
        place, lines = COLUMNS.index(name), list(self.lines)
        for word, value in zip(self.words, values, strict=True):
            cells = lines[word].split("\t")
            cells[place] = value
            lines[word] = "\t".join(cells)
        return replace(self, lines=tuple(lines))

    def __str__(self) -> str:
        """The sentence in CoNLL-U, with the empty line at its end."""
        return "".join(f"{line}\n" for line in (*self.lines, ""))


def read_sentences(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    """Reads the sentences of CoNLL-U lines; `name` is the file's name for messages.

    Raises:
        DataError: a line does not follow the format; the message has its number.
    """
    reader = SentenceReader(name)
    for line in lines:
        if sentence := reader.read(line):
            yield sentence
    reader.end()


class SentenceReader:
    """Reads CoNLL-U line by line and returns each sentence when it is complete."""

    def __init__(self, name: str) -> None:
        self._name, self._number = name, 0
        self._sentence = _Sentence(name, 1)

    def read(self, line: str) -> Sentence | None:
        """Reads one line; returns the sentence if the line ends it, else None.

        Raises:
            DataError: the line does not follow the format.
        """
        self._number += 1
        if line:
            self._sentence.add(line, self._number)
            return None
        ended = self._sentence.finish(self._number)
        self._sentence = _Sentence(self._name, self._number + 1)
        return ended

    def end(self) -> None:
        """Checks that the input ends with a complete sentence.

        Raises:
            DataError: the empty line after the last sentence is missing.
        """
        if self._sentence.lines:
            raise _error(self._name, self._number, "the last sentence is not ended by an empty line")


class _Sentence:
    """An incomplete sentence, to which lines are added."""

    def __init__(self, name: str, first_line: int) -> None:
        self.name, self.first_line = name, first_line
        self.lines: list[str] = []
        self.words: list[int] = []
        self._range_end = 0  # the last word of the latest range
        self._empty_nodes = 0  # since the latest word

    def add(self, line: str, number: int) -> None:
        if problem := self._comment(line) if line.startswith("#") else self._row(line):
            raise _error(self.name, number, problem)
        self.lines.append(line)

    def finish(self, number: int) -> Sentence:
        """The complete sentence, at the empty line `number`."""
        if not self.words:
            raise _error(self.name, number, "a sentence without a word")
        if self._range_end > len(self.words):
            raise _error(self.name, number, f"a range ends at word {self._range_end}, which is missing")
        return Sentence(lines=tuple(self.lines), words=tuple(self.words), first_line=self.first_line)

    def _comment(self, line: str) -> str | None:
        return "a comment between words" if any(not each.startswith("#") for each in self.lines) else None

    def _row(self, line: str) -> str | None:
        """Adds a line of columns; returns what is wrong with it, or None."""
        cells = line.split("\t")
        if line.isspace():
            return "white space where an empty line is expected"
        if len(cells) != len(COLUMNS):
            return f"{len(cells)} columns separated by tabs, not {len(COLUMNS)}"
        for column, cell in zip(COLUMNS, cells, strict=True):
            if not cell or cell.isspace():
                return f"the column {column.upper()} is empty: write {NO_VALUE!r} for no value"
        if _WORD.fullmatch(cells[0]):
            return self._word(int(cells[0]))
        if found := _RANGE.fullmatch(cells[0]):
            return self._range(int(found[1]), int(found[2]))
        if found := _EMPTY_NODE.fullmatch(cells[0]):
            return self._empty_node(int(found[1]), int(found[2]))
        return f"the ID {cells[0]!r} is not a word (4), range (4-5) or empty node (4.1)"

    def _word(self, word: int) -> str | None:
        if word != len(self.words) + 1:
            return f"word {word} where word {len(self.words) + 1} is expected"
        self.words.append(len(self.lines))
        self._empty_nodes = 0
        return None

    def _range(self, start: int, end: int) -> str | None:
        if start != len(self.words) + 1 or end < start or start <= self._range_end:
            return f"the range {start}-{end} does not begin with the word after it, {len(self.words) + 1}"
        self._range_end = end
        return None

    def _empty_node(self, word: int, place: int) -> str | None:
        if (word, place) != (len(self.words), self._empty_nodes + 1):
            return f"empty node {word}.{place} where {len(self.words)}.{self._empty_nodes + 1} is expected"
        self._empty_nodes = place
        return None


def _error(name: str, number: int, problem: str) -> DataError:
    return DataError(f"{name}:{number}: {problem}", "see https://universaldependencies.org/format.html")


@dataclass(frozen=True, kw_only=True)
class ConlluSettings:
    """A CoNLL-U file, plain or gzipped: a path, or `NAME:FILE` of the catalogue."""

    file: str  # the sentences with their labels


class Treebank:
    """The sentences of a CoNLL-U file; it can be iterated repeatedly."""

    def __init__(self, settings: ConlluSettings, base: Path) -> None:
        self.path = locate(settings.file, base)

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    def __iter__(self) -> Iterator[Sentence]:
        return read_sentences(read_lines(self.path), str(self.path))

    def fingerprint(self, column: LabelColumn) -> str:
        """A digest of everything that determines the words and labels."""
        return hashlib.sha256(f"{column} {file_digest(self.path)}".encode()).hexdigest()


def labels_of(sentence: Sentence, column: LabelColumn, name: str) -> tuple[str, ...]:
    """The labels of a sentence's words in `column`; `name` is the file's name for messages.

    Raises:
        DataError: a word has no label ("_", except in FEATS, where it means "no features").
    """

    labels = sentence.column(column)
    for place, label in zip(sentence.words, labels, strict=True):
        if label == NO_VALUE and column != "feats":
            raise DataError(
                f"{name}:{sentence.first_line + place}: a word without {column.upper()}",
                "give it one, or choose another data.column",
            )
    return labels
