"""Synthetic tasks without a download: dates, numbers, reverse, copy, sort; any number of pairs.

The subject of a pair (the date, the number, the sequence) belongs to one split by its SHA-256: 5 % to test,
5 % to valid, the rest to train. So no test subject occurs in training, for any seeds and sizes. The pairs
depend on the seed; those of `dates` also on the version of Babel.

All dates follow one rule. With the name of a month, the other numbers are day and year. Of three numbers, a
first one of four digits is the year, followed by month and day; otherwise they are day, month, year; but if
only the second can be a day, they are month, day, year, as in American dates. A two-digit year lies between
1969 and 2068 (POSIX).
"""

import datetime
import hashlib
import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, TypeVar

from regard.errors import DataError, MissingExtra, did_you_mean

DATE_LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "pl", "cs", "tr")
YEARS = range(1800, 2200)
SHORT_YEARS = range(1969, 2069)  # the years that two digits can mean; half of all dates have one of them
TASKS = ("dates", "numbers", "reverse", "copy", "sort")

Split = Literal["train", "valid", "test"]
Item = TypeVar("Item")


def synthetic_pairs(
    task: str,
    *,
    size: int,
    seed: int,
    split: Split = "train",
    languages: tuple[str, ...] = (),
    length: int = 16,
    symbols: int = 10,
) -> Iterator[tuple[str, str]]:
    """Generates `size` pairs (source, target) of one of TASKS; the same arguments give the same pairs.

    `languages` (Babel's names; empty: DATE_LANGUAGES) is for `dates`. `length` and `symbols`, the length of a
    sequence and the number of different symbols, are for `reverse`, `copy` and `sort`.
    """
    if length < 1 or symbols < 2:
        raise DataError(
            f"length ({length}) must be 1 or more, symbols ({symbols}) 2 or more", "length = 16, symbols = 10"
        )
    rng = random.Random(f"{task} {split} {seed}")  # noqa: S311 (reproducible pairs, no secret)
    if task == "dates":
        forms = _date_forms(languages or DATE_LANGUAGES)
        return (_date_pair(rng, split, forms) for _ in range(size))
    if task == "numbers":
        return (_number_pair(rng, split) for _ in range(size))
    if task in SEQUENCE_TASKS:
        change = SEQUENCE_TASKS[task]
        return (_sequence_pair(rng, split, change, length, symbols) for _ in range(size))
    raise DataError(f"no synthetic task is called {task!r}", did_you_mean(task, TASKS))


# Splits and random numbers


def split_of(subject: str) -> Split:
    """The split of a subject, by its SHA-256."""
    bucket = hashlib.sha256(subject.encode("utf-8")).digest()[0] * 100 // 256
    return "test" if bucket < 5 else "valid" if bucket < 10 else "train"


def _below(rng: random.Random, bound: int) -> int:
    """A random number from 0 to `bound` - 1, by `random()`, which is the same in all Python versions."""
    return int(rng.random() * bound)


def _sample(split: Split, generate: Callable[[], Item], subject: Callable[[Item], str]) -> Item:
    """Samples items until the subject of one belongs to `split`."""
    for _ in range(10_000):
        item = generate()
        if split_of(subject(item)) == split:
            return item
    raise DataError(f"too few different examples: none falls into {split}", "raise length or symbols")


# Dates


def _date_pair(rng: random.Random, split: Split, forms: list[list["Form"]]) -> tuple[str, str]:
    date = _sample(split, lambda: _date(rng), datetime.date.isoformat)
    while True:  # most forms are unambiguous for most dates
        forms_of_language = forms[_below(rng, len(forms))]
        source = forms_of_language[_below(rng, len(forms_of_language))](date)
        if _reads_as(source, date):
            break
    if _below(rng, 5) == 0:
        source = source.lower()
    return source, date.isoformat()


def _date(rng: random.Random) -> datetime.date:
    years = SHORT_YEARS if _below(rng, 2) else YEARS
    first = datetime.date(years.start, 1, 1).toordinal()
    return datetime.date.fromordinal(first + _below(rng, datetime.date(years.stop, 1, 1).toordinal() - first))


def _reads_as(text: str, date: datetime.date) -> bool:
    """True if `text`, written for `date`, is read as `date` by the rule of this module."""
    numbers = re.findall(r"\d+", text)
    if len(numbers) == 3:
        return read_numbers(numbers[0], numbers[1], numbers[2]) == date
    return date.year in map(int, numbers) or date.year in SHORT_YEARS


def read_numbers(first: str, second: str, third: str) -> datetime.date | None:
    """The date that three numbers mean by the rule of this module; None if they are not a date."""
    if len(first) == 4:
        year, month, day = int(first), int(second), int(third)
    else:
        day, month, year = int(first), int(second), int(third)
        if month > 12 >= day:
            day, month = month, day
        if len(third) == 2:
            year += 2000 if 2000 + year in SHORT_YEARS else 1900
    try:
        return datetime.date(year, month, day)
    except ValueError:
        return None


Form = Callable[[datetime.date], str]


def _date_forms(languages: tuple[str, ...]) -> list[list[Form]]:
    """For each language, functions that write a date in its usual formats."""
    try:
        from babel import Locale, UnknownLocaleError
        from babel.dates import format_date
    except ImportError:
        raise MissingExtra("Babel", "demo", "writing dates in many languages") from None
    forms = []
    for language in languages:
        try:
            locale = Locale.parse(language)
        except (ValueError, UnknownLocaleError):
            raise DataError(
                f"Babel has no language {language!r}", f"give languages such as {', '.join(DATE_LANGUAGES)}"
            ) from None
        patterns = ["full", "long", "medium", "short", "d MMM yy", "d MMMM y", "EEE d MMM y"]
        forms_of_language: list[Form] = [
            partial(format_date, format=pattern, locale=locale) for pattern in patterns
        ]
        forms.append([*forms_of_language, *ENGLISH_FORMS] if locale.language == "en" else forms_of_language)
    return forms


def _ordinal(day: int) -> str:
    """1st, 2nd, 3rd, 4th, ..., 11th, ..., 21st."""
    ending = "th" if day // 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


ENGLISH_MONTHS = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
]  # fmt: skip
ENGLISH_FORMS: list[Form] = [
    lambda date: f"{ENGLISH_MONTHS[date.month - 1]} the {_ordinal(date.day)}, {date.year}",
    lambda date: f"{ENGLISH_MONTHS[date.month - 1]} {_ordinal(date.day)}, {date.year}",
    lambda date: f"the {_ordinal(date.day)} of {ENGLISH_MONTHS[date.month - 1]} {date.year}",
    lambda date: f"{date.day}/{date.month}/{date.year}",
    datetime.date.isoformat,
]


# Numbers

UNITS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    "ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
]  # fmt: skip
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def number_name(number: int) -> str:
    """A number from 0 to 999,999 in English, without "and": 40217 is forty thousand two hundred seventeen."""
    if number < 20:
        return UNITS[number]
    if number < 100:
        tens = TENS[number // 10 - 2]
        return f"{tens}-{UNITS[number % 10]}" if number % 10 else tens
    unit, name = (100, "hundred") if number < 1000 else (1000, "thousand")
    rest = f" {number_name(number % unit)}" if number % unit else ""
    return f"{number_name(number // unit)} {name}{rest}"


def _number_pair(rng: random.Random, split: Split) -> tuple[str, str]:
    """A number and its name. Numbers of 1 to 6 digits are equally frequent.

    All numbers below 100 belong to training, because they are parts of other numbers.
    """

    def generate() -> int:
        return _below(rng, 10 ** (1 + _below(rng, 6)))

    number = _sample(split, generate, lambda number: "" if number < 100 else str(number))
    return str(number), number_name(number)


# Sequences

SEQUENCE_TASKS: dict[str, Callable[[list[int]], list[int]]] = {
    "reverse": lambda sequence: sequence[::-1],
    "copy": list,
    "sort": sorted,
}


def _sequence_pair(
    rng: random.Random, split: Split, change: Callable[[list[int]], list[int]], length: int, symbols: int
) -> tuple[str, str]:
    """A random sequence and its changed form; symbols are numbers from 0, separated by spaces."""
    sequence = _sample(split, lambda: [_below(rng, symbols) for _ in range(length)], _words)
    return _words(sequence), _words(change(sequence))


def _words(sequence: list[int]) -> str:
    return " ".join(map(str, sequence))
