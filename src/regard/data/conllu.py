"""CoNLL-U, read strictly, and written back with one column changed.

universaldependencies.org/format.html: a sentence is comments, then lines of ten columns between tabs, then
an empty line. Words are numbered 1, 2, ...; a range ("4-5") says that the words after it are written as
one, an empty node ("8.1") is a word that is not written. Neither is a word of the sentence.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from regard.data.corpus import digest_of, locate, read_lines
from regard.errors import DataError

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
Column = Literal["lemma", "upos", "xpos", "feats", "deprel"]  # that a label can stand in
NOTHING = "_"  # what stands in a column that says nothing

_WORD = re.compile(r"[1-9]\d*")
_RANGE = re.compile(r"([1-9]\d*)-([1-9]\d*)")
_EMPTY_NODE = re.compile(r"(0|[1-9]\d*)\.([1-9]\d*)")


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence as it stands in its file: all of its lines, and which of them are words."""

    lines: tuple[str, ...]  # without their ends, the empty line not counted
    words: tuple[int, ...]  # places in `lines`
    first_line: int  # of the file, from 1

    def __len__(self) -> int:
        """How many words it has."""
        return len(self.words)

    def column(self, name: str) -> tuple[str, ...]:
        """What stands there, of each word."""
        place = COLUMNS.index(name)
        return tuple(self.lines[word].split("\t")[place] for word in self.words)

    @property
    def forms(self) -> tuple[str, ...]:
        return self.column("form")

    def with_column(self, name: str, values: Sequence[str]) -> "Sentence":
        """The same sentence with these values there, one a word, and everything else as it was."""
        place, lines = COLUMNS.index(name), list(self.lines)
        for word, value in zip(self.words, values, strict=True):
            cells = lines[word].split("\t")
            cells[place] = value
            lines[word] = "\t".join(cells)
        return replace(self, lines=tuple(lines))

    def __str__(self) -> str:
        """As it stands in a file, with the empty line that ends it."""
        return "".join(f"{line}\n" for line in (*self.lines, ""))


def read_sentences(lines: Iterable[str], name: str) -> Iterator[Sentence]:
    """The sentences of a file called `name`, one after the other.

    Raises:
        DataError: a line breaks the format; it is named.
    """
    reader = SentenceReader(name)
    for line in lines:
        if sentence := reader.read(line):
            yield sentence
    reader.end()


class SentenceReader:
    """Lines one at a time -> sentences, each as soon as it is ended."""

    def __init__(self, name: str) -> None:
        self._name, self._number = name, 0
        self._sentence = _Sentence(name, 1)

    def read(self, line: str) -> Sentence | None:
        """The sentence that this line ends, if it does.

        Raises:
            DataError: the line breaks the format.
        """
        self._number += 1
        if line:
            self._sentence.add(line, self._number)
            return None
        ended = self._sentence.whole(self._number)
        self._sentence = _Sentence(self._name, self._number + 1)
        return ended

    def end(self) -> None:
        """There is no further line.

        Raises:
            DataError: the last sentence was not ended.
        """
        if self._sentence.lines:
            raise _error(self._name, self._number, "the last sentence is not ended by an empty line")


class _Sentence:
    """A sentence of which some lines have been read."""

    def __init__(self, name: str, first_line: int) -> None:
        self.name, self.first_line = name, first_line
        self.lines: list[str] = []
        self.words: list[int] = []
        self._range_end = 0  # the last word of the latest range
        self._empty_nodes = 0  # after the latest word

    def add(self, line: str, number: int) -> None:
        if problem := self._comment(line) if line.startswith("#") else self._row(line):
            raise _error(self.name, number, problem)
        self.lines.append(line)

    def whole(self, number: int) -> Sentence:
        """The sentence, which an empty line has ended."""
        if not self.words:
            raise _error(self.name, number, "a sentence without a word")
        if self._range_end > len(self.words):
            raise _error(self.name, number, f"a range reaches to word {self._range_end}, which is not there")
        return Sentence(lines=tuple(self.lines), words=tuple(self.words), first_line=self.first_line)

    def _comment(self, line: str) -> str | None:
        return "a comment between words" if any(not each.startswith("#") for each in self.lines) else None

    def _row(self, line: str) -> str | None:
        """What is wrong with it; where nothing is, it is counted."""
        cells = line.split("\t")
        if line.isspace():
            return "white space where an empty line must stand"
        if len(cells) != len(COLUMNS):
            return f"{len(cells)} columns between tabs, not {len(COLUMNS)}"
        for column, cell in zip(COLUMNS, cells, strict=True):
            if not cell or cell.isspace():
                return f"nothing in the column {column.upper()}: {NOTHING!r} stands for nothing"
        if _WORD.fullmatch(cells[0]):
            return self._word(int(cells[0]))
        if found := _RANGE.fullmatch(cells[0]):
            return self._range(int(found[1]), int(found[2]))
        if found := _EMPTY_NODE.fullmatch(cells[0]):
            return self._empty_node(int(found[1]), int(found[2]))
        return f"the ID {cells[0]!r} is no word (4), range (4-5) or empty node (4.1)"

    def _word(self, word: int) -> str | None:
        if word != len(self.words) + 1:
            return f"word {word} where word {len(self.words) + 1} must stand"
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
            return f"the empty node {word}.{place} where {len(self.words)}.{self._empty_nodes + 1} must stand"
        self._empty_nodes = place
        return None


def _error(name: str, number: int, problem: str) -> DataError:
    return DataError(f"{name}:{number}: {problem}", "see https://universaldependencies.org/format.html")


@dataclass(frozen=True, kw_only=True)
class ConlluSettings:
    """Where sentences stand: a file, plain or gzipped; NAME:FILE is a file of the catalogue."""

    file: str


class Treebank:
    """The sentences of a file, to be read again and again."""

    def __init__(self, settings: ConlluSettings, base: Path) -> None:
        self.path = locate(settings.file, base)

    @property
    def name(self) -> str:
        return self.path.name

    def __iter__(self) -> Iterator[Sentence]:
        return read_sentences(read_lines(self.path), str(self.path))

    def fingerprint(self, column: Column) -> str:
        """A digest of what decides which words and labels come out."""
        return hashlib.sha256(f"{column} {digest_of(self.path)}".encode()).hexdigest()


def labels_of(sentence: Sentence, column: Column, name: str) -> tuple[str, ...]:
    """What stands in `column`, of each word; `name` is that of the file, for messages.

    Raises:
        DataError: a word has no label there ("_", which for FEATS is one: no feature).
    """
    labels = sentence.column(column)
    for place, label in zip(sentence.words, labels, strict=True):
        if label == NOTHING and column != "feats":
            raise DataError(
                f"{name}:{sentence.first_line + place}: a word without {column.upper()}",
                "give it one, or choose another data.column",
            )
    return labels
