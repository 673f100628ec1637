"""Reference alignments of the dates task: the source characters that determine each ISO character.

They cover the date formats of `synthetic.py` in English, German, French and Spanish, the languages of
`recipes/dates.toml`.
"""

import re

MONTHS = (  # the first letters of their names in these languages
    ("jan", "jän", "ene"),
    ("feb", "fév", "fev"),
    ("mar", "mär"),
    ("apr", "avr", "abr"),
    ("may", "mai"),
    ("jun", "jui"),
    ("jul", "jui"),
    ("aug", "aoû", "ago"),
    ("sep",),
    ("oct", "okt"),
    ("nov",),
    ("dec", "dez", "déc", "dic"),
)


def date_origins(source: str, target: str) -> dict[int, frozenset[int]]:
    """For each position in `target` (YYYY-MM-DD), the positions in `source` that determine it.

    A digit is aligned with the same digit. A padding zero (05 from 5) and the century of a two-digit year
    are aligned with the whole number, a month with its name. Hyphens, and parts that are not found, have
    no alignment.
    """
    numbers = [range(*match.span()) for match in re.finditer(r"\d+", source)]
    if len(numbers) == 3:
        year, month, day = _in_order(source, numbers)
    elif len(numbers) == 2:
        year, day = numbers if len(numbers[0]) == 4 else reversed(numbers)
        month = _name_of_month(source, int(target[5:7]))
    else:
        return {}
    origins = _of_digits(range(4), year) | _of_digits(range(8, 10), day)
    if len(numbers) == 3:
        return origins | _of_digits(range(5, 7), month)
    return origins | (dict.fromkeys((5, 6), frozenset(month)) if month else {})


def _in_order(source: str, numbers: list[range]) -> tuple[range, range, range]:
    """Orders three numbers as year, month, day, by the rule of `synthetic.read_numbers`."""
    first, second, third = numbers
    if len(first) == 4:
        return first, second, third
    day, month = int(source[first.start : first.stop]), int(source[second.start : second.stop])
    return (third, first, second) if month > 12 >= day else (third, second, first)


def _name_of_month(source: str, month: int) -> range:
    """The last word that begins like the month's name: a weekday (mardi) would come before it."""
    words = list(re.finditer(r"[^\W\d_]+", source.lower()))
    found = [match for match in words if match[0].startswith(MONTHS[month - 1])]
    return range(*found[-1].span()) if found else range(0)


def _of_digits(places: range, number: range) -> dict[int, frozenset[int]]:
    """Aligns digits from the right; positions beyond the number's digits get the whole number."""
    return {
        place: frozenset([number.stop - back]) if back <= len(number) else frozenset(number)
        for back, place in enumerate(reversed(places), start=1)
    }
