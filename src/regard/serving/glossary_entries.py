"""The entries of a glossary: reading and writing them, and finding those that occur in a sentence.

A source term occurs where it stands in the sentence as whole words, written as in the glossary; at the
beginning of the sentence its first letter may be a capital. The longest of several terms at a place is taken.
"""

import csv
import io
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from regard.serving.http_error import HttpProblem

MOST_BYTES = 1024  # of a term in UTF-8, as in DeepL's glossaries
WITHOUT_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")  # scripts
SHOWN = 40  # characters of a term in a message


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

    def tsv(self) -> str:
        """A line for each entry: the terms with a tab between them."""
        return "\n".join(f"{source}\t{target}" for source, target in self.entries.items())


def read_entries(content: str, kind: str, languages: tuple[str, str]) -> Dictionary:
    """The entries in a text of DeepL's formats "tsv" or "csv". White space in source terms becomes one space.

    Raises:
        HttpProblem: the format is another, there is no entry, or one is wrong; it is named by its number.
    """
    if kind not in ("tsv", "csv"):
        raise wrong_entries("entries_format must be tsv or csv", "entries_format = tsv", "entries_format")
    rows = _tsv_rows(content) if kind == "tsv" else _csv_rows(content, languages)
    found: dict[str, str] = {}
    for number, (source, target) in rows:
        source, target = " ".join(unicodedata.normalize("NFC", source).split()), target.strip()
        for term in (source, target):
            _check_term(number, term)
        if "|" in target:  # must_contain reads it as an alternative
            raise wrong_entries(f"entry {number} has | in its target", "write the term without |")
        if source in found:
            raise wrong_entries(
                f"entry {number} has the source {source[:SHOWN]!r} again", "write each source once"
            )
        found[source] = target
    if not found:
        raise wrong_entries("there is no entry", "write source and target with a tab between them")
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
    return place == 0 or not _joins(text[place - 1], text[place])


def _ends_word(text: str, end: int) -> bool:
    return end == len(text) or not _joins(text[end - 1], text[end])


def _joins(one: str, other: str) -> bool:
    """True if two neighbouring characters are parts of one word."""
    letters = all(unicodedata.category(each)[0] in "LNM" for each in (one, other))
    return letters and not any(unicodedata.name(each, "").startswith(WITHOUT_SPACES) for each in (one, other))


def _tsv_rows(content: str) -> Iterator[tuple[int, tuple[str, str]]]:
    lines = content.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines, start=1):
        if line.strip():
            terms = line.split("\t")
            if len(terms) != 2:
                raise wrong_entries(
                    f"entry {number} has {len(terms) - 1} tabs",
                    "write source and target with a tab between them",
                )
            yield number, (terms[0], terms[1])


def _csv_rows(content: str, languages: tuple[str, str]) -> Iterator[tuple[int, tuple[str, str]]]:
    """The rows: two terms, and perhaps their languages, which must be those of the dictionary."""
    try:
        for number, row in enumerate(csv.reader(io.StringIO(content, newline=""), strict=True), start=1):
            if not any(row):
                continue
            if len(row) not in (2, 4):
                raise wrong_entries(f"entry {number} has {len(row)} columns", "write source,target")
            if len(row) == 4 and tuple(each.strip().lower() for each in row[2:]) != languages:
                raise wrong_entries(f"entry {number} is of other languages", "leave out the languages")
            yield number, (row[0], row[1])
    except csv.Error as error:
        raise wrong_entries(f"the entries are not CSV: {error}", "put terms with commas in quotes") from None


def _check_term(number: int, term: str) -> None:
    """Raise an HttpProblem if a term is empty, too long, or has control characters."""
    if not term:
        raise wrong_entries(f"entry {number} has an empty term", "write source and target")
    if len(term.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise wrong_entries(
            f"entry {number} has a term of more than {MOST_BYTES:,} bytes", "write a shorter one"
        )
    if any(unicodedata.category(each) in ("Cc", "Cs", "Zl", "Zp") for each in term):
        raise wrong_entries(f"entry {number} has a control character", "leave it out")


def wrong_entries(message: str, hint: str, parameter: str = "entries") -> HttpProblem:
    """The problem of a field of a glossary."""
    return HttpProblem(400, message, hint, parameter=parameter, code="invalid_value")
