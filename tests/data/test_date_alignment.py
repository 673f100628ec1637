"""Each character of an ISO date is aligned with characters of the written date."""

import pytest

from regard.data.date_alignment import date_origins
from regard.data.synthetic import synthetic_pairs


def aligned(source, target):
    """The source text that each position of the target is aligned with."""
    origins = date_origins(source, target)
    return {place: "".join(source[each] for each in sorted(origins[place])) for place in sorted(origins)}


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("14 juillet 1789", "1789-07-14", ["1", "7", "8", "9", "juillet", "juillet", "1", "4"]),
        ("mardi 3 mars 1801", "1801-03-03", ["1", "8", "0", "1", "mars", "mars", "3", "3"]),
        ("July 4th, 2001", "2001-07-04", ["2", "0", "0", "1", "July", "July", "4", "4"]),
        ("5.12.89", "1989-12-05", ["89", "89", "8", "9", "1", "2", "5", "5"]),
        ("12/25/2010", "2010-12-25", ["2", "0", "1", "0", "1", "2", "2", "5"]),
        ("2010-12-25", "2010-12-25", ["2", "0", "1", "0", "1", "2", "2", "5"]),
        ("el día 5 de ??? de 1999", "1999-08-05", ["1", "9", "9", "9", "5", "5"]),
    ],
)
def test_digits_come_from_digits_and_months_from_their_names(source, target, expected):
    assert list(aligned(source, target).values()) == expected


def test_what_is_no_date_has_no_alignment():
    assert date_origins("soon", "1999-01-01") == {}
    assert date_origins("", "1999-01-01") == {}


def test_every_date_of_the_recipe_is_aligned_completely():
    pairs = synthetic_pairs("dates", size=500, seed=3, split="test", languages=("en", "de", "fr", "es"))
    for source, target in pairs:
        assert list(aligned(source, target)) == [0, 1, 2, 3, 5, 6, 8, 9], source
        assert all(aligned(source, target).values())
