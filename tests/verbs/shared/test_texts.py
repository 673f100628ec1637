"""One text or several, as callers give them; what is none is refused by its place."""

from pathlib import Path

import pytest

from regard.errors import DataError
from regard.verbs.shared.texts import several, strings


def test_one_text_is_one_and_several_are_several():
    assert list(strings("a b")) == ["a b"]
    assert list(strings(("a", "b"))) == list(several(iter(["a", "b"]))) == ["a", "b"]
    assert list(several([])) == []
    with pytest.raises(DataError, match="'a b' is one text, not several"):
        several("a b")


@pytest.mark.parametrize(
    "given", [5, None, b"a", {"a": "b"}, Path("a"), ["a", 5], ("a", None), ["a", ["b"]]], ids=str
)
def test_what_is_no_text_is_refused_at_once(given):
    for call in (strings, several):
        with pytest.raises(DataError, match=r"not a string|not a text") as raised:
            call(given)
        assert raised.value.hint


def test_what_an_iterator_brings_is_refused_as_it_comes():
    came = several(iter(["a", 5]))
    assert next(came) == "a"
    with pytest.raises(DataError, match="text 2 is int, not a string"):
        next(came)
