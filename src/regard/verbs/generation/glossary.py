"""A glossary: its entries, and the terms that the translation of a sentence must have.

A source term occurs where it stands in the sentence as whole words, written as in the glossary; at the
beginning of the sentence its first letter may be a capital. The longest of several terms at a place is taken.
"""

import csv
import hashlib
import io
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard import console
from regard.counted import counted
from regard.data.column_names import LANGUAGE_CODES
from regard.data.files import read_lines
from regard.decoding.word_borders import joins
from regard.errors import DataError

MOST_BYTES = 1024  # of a term in UTF-8, as in DeepL's glossaries
DIGITS = 16  # of a checksum
SHOWN = 40  # characters of a term in a message
RequiredText = tuple[str, ...]  # a text that a translation must have, in one of these forms


@dataclass(frozen=True)
class Dictionary:
    """The entries of one pair of languages: source term -> target term."""

    entries: Mapping[str, str]
    lengths: frozenset[int] = field(init=False)  # of the source terms, in characters

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", frozenset(map(len, self.entries)))

    @property
    def bytes(self) -> int:
        """The size of all terms in UTF-8."""
        return sum(len(term.encode()) for pair in self.entries.items() for term in pair)

    def __str__(self) -> str:
        """The number of entries and what differs if one does, for messages and the plans of jobs."""
        content = json.dumps(sorted(self.entries.items())).encode()
        digest = hashlib.sha256(content).hexdigest()[:DIGITS]
        return f"{counted(len(self.entries), 'entry', 'entries')}, sha256 {digest}"

    def tsv(self) -> str:
        """A line for each entry: the terms with a tab between them."""
        return "\n".join(f"{source}\t{target}" for source, target in self.entries.items())


def read_glossary(file: Path) -> Dictionary:
    """The glossary in a file: CSV if its name ends with .csv, else a source, a tab and a target in each line.

    A first line with names of columns or of languages is left out, and a note says so.

    Raises:
        DataError: the file cannot be read, or an entry is wrong.
    """
    kind = "csv" if file.name.lower().removesuffix(".gz").endswith(".csv") else "tsv"
    try:
        lines = list(read_lines(file))
        if lines and _is_header(lines[0], kind):
            console.note(
                f"glossary {file}: the first line, {lines[0]!r}, has names of columns, and is no entry"
            )
            lines[0] = ""
        return read_entries("\n".join(lines), kind)
    except DataError as error:
        known = str(file) in error.message
        raise error if known else DataError(f"glossary {file}: {error.message}", error.hint) from None


def read_entries(content: str, kind: str, languages: tuple[str, str] | None = None) -> Dictionary:
    """The entries in a text of DeepL's formats "tsv" or "csv". White space in source terms becomes one space.

    `languages`: those that rows of CSV must have, if they have any; None: those of the first row.

    Raises:
        DataError: there is no entry, or one is wrong; it is named by its number.
    """
    rows = _tsv_rows(content) if kind == "tsv" else _csv_rows(content, languages)
    found: dict[str, str] = {}
    for number, (source, target) in rows:
        source, target = " ".join(unicodedata.normalize("NFC", source).split()), target.strip()
        for term in (source, target):
            _check_term(number, term)
        if "|" in target:  # must_contain reads it as an alternative
            raise DataError(f"entry {number} has | in its target", "write the term without |")
        if source in found:
            raise DataError(
                f"entry {number} has the source {source[:SHOWN]!r} again", "write each source once"
            )
        found[source] = target
    if not found:
        raise DataError("there is no entry", "write source and target with a tab between them")
    return Dictionary(found)


def occurring(sentence: str, dictionaries: Sequence[Dictionary]) -> dict[str, str]:
    """The entries whose source terms occur in the sentence; of equal ones that of the first dictionary."""
    text = " ".join(unicodedata.normalize("NFC", sentence).split())
    start = next((place for place, each in enumerate(text) if each.isalnum()), 0)
    lengths = sorted({length for each in dictionaries for length in each.lengths}, reverse=True)
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        for length in lengths if _begins_word(text, place) else ():
            end = place + length
            if end > len(text) or not _ends_word(text, end):
                continue
            if entry := _entry(text[place:end], dictionaries, may_be_capital=place == start):
                found.setdefault(*entry)
                place = end - 1
                break
        place += 1
    return found


def required_texts(entries: Mapping[str, str]) -> tuple[RequiredText, ...]:
    """The target terms of entries; sorted, so that sentences with the same go together."""
    return tuple(sorted({forms_of(target) for target in entries.values()}))


def must_contain(texts: Sequence[RequiredText]) -> tuple[str, ...]:
    """The texts as the control `must_contain` has them."""
    return tuple("|".join(forms) for forms in texts)


def missing_text(translation: str, texts: Sequence[RequiredText]) -> str | None:
    """The first of the texts that a translation lacks, for a search can end without one; None: it has all."""
    plain = _plain(translation)
    lacking = (forms[0] for forms in texts if not any(_plain(form) in plain for form in forms))
    return next(lacking, None)


def _plain(text: str) -> str:
    """The text without white space and compatibility forms, which tokenisers change."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def forms_of(target: str) -> tuple[str, ...]:
    """The forms of a target term that a translation may have: as it is written, or with a capital."""
    capital = target[0].upper() + target[1:]
    return (target,) if capital == target else (target, capital)


def _entry(term: str, dictionaries: Sequence[Dictionary], *, may_be_capital: bool) -> tuple[str, str] | None:
    """The entry of a term in the first dictionary that has it."""
    lower = term[0].lower() + term[1:]
    for each in dictionaries:
        for form in (term, lower) if may_be_capital else (term,):
            if form in each.entries:
                return form, each.entries[form]
    return None


def _begins_word(text: str, place: int) -> bool:
    return place == 0 or not joins(text[place - 1], text[place])


def _ends_word(text: str, end: int) -> bool:
    return end == len(text) or not joins(text[end - 1], text[end])


def _is_header(line: str, kind: str) -> bool:
    """True for `source` and `target`, with more or not, two names of languages, and `en` and a code."""
    cells = next(csv.reader([line]), []) if kind == "csv" else line.split("\t")
    names = [cell.strip().casefold() for cell in cells[:2]]
    if len(set(names)) < 2:
        return False
    source, target = (re.split(r"[\W_]", name)[0] for name in names)
    if {*names} <= {*LANGUAGE_CODES} or (source in ("source", "src") and target in ("target", "tgt")):
        return True
    # other pairs of codes are words, too: it and es
    return "en" in (source, target) and all(re.fullmatch(r"[a-z]{2,3}([-_]\w+)?", name) for name in names)


def _tsv_rows(content: str) -> Iterator[tuple[int, tuple[str, str]]]:
    lines = content.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            terms = line.split("\t")
            if len(terms) != 2:
                raise DataError(
                    f"entry {number} has {len(terms) - 1} tabs",
                    "write source and target with a tab between them",
                )
            yield number, (terms[0], terms[1])


def _csv_rows(content: str, languages: tuple[str, str] | None) -> Iterator[tuple[int, tuple[str, str]]]:
    """The rows: two terms, and perhaps their languages, which must be those of the dictionary."""
    try:
        for number, row in enumerate(csv.reader(io.StringIO(content, newline=""), strict=True), start=1):
            if not any(row):
                continue
            if len(row) not in (2, 4):
                raise DataError(f"entry {number} has {len(row)} columns", "write source,target")
            if len(row) == 4:
                own = row[2].strip().lower(), row[3].strip().lower()
                languages = languages or own
                if own != languages:
                    raise DataError(f"entry {number} is of other languages", "leave out the languages")
            yield number, (row[0], row[1])
    except csv.Error as error:
        raise DataError(f"the entries are not CSV: {error}", "put terms with commas in quotes") from None


def _check_term(number: int, term: str) -> None:
    """Raise an DataError if a term is empty, too long, or has control characters."""
    if not term:
        raise DataError(f"entry {number} has an empty term", "write source and target")
    if len(term.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise DataError(f"entry {number} has a term of more than {MOST_BYTES:,} bytes", "write a shorter one")
    if any(unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") for each in term):
        raise DataError(f"entry {number} has a control character", "leave it out")
