"""A noun is in the number of its count."""

import pytest

from regard.counted import counted


@pytest.mark.parametrize(
    ("count", "words", "text"),
    [
        (0, ["update"], "0 updates"),
        (1, ["update"], "1 update"),
        (2, ["update"], "2 updates"),
        (12_345, ["update"], "12,345 updates"),
        (1, ["thing is", "things are"], "1 thing is"),
        (3, ["thing is", "things are"], "3 things are"),
    ],
)
def test_one_is_singular_and_all_else_plural(count, words, text):
    assert counted(count, *words) == text
