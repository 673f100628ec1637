import json
import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import FolderError, RunError
from regard.weights.strict_json import json_bytes, parse_json, read_json

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(), plain, max_size=4))
def test_what_is_written_is_read_back_exactly(value):
    assert parse_json(json_bytes(value), "x") == value


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_no_number_is_written_that_is_none(number):
    with pytest.raises(RunError, match="JSON"):
        json_bytes({"a": [number]})


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (b'{"a": NaN}', "NaN is not"),
        (b'{"a": -Infinity}', "-Infinity is not"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": 1, "b": 2, "a": 3}', "key 'a' occurs twice"),
        (b'{"b": {"a": 1, "a": 1}}', "key 'a' occurs twice"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "digits"),
        (b'{"a": "\xff"}', "utf-8"),
        (b'{"a": 1', "delimiter"),
        (b"[1]", "list where an object"),
        (b"", "Expecting value"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b'{"a": 1}\0', "Extra data"),
    ],
)
def test_json_that_means_two_things_or_none_is_refused_in_one_line(text, output):
    with pytest.raises(FolderError, match=output) as raised:
        parse_json(text, "state.json")
    assert raised.value.message.startswith("state.json: ")
    assert "\n" not in raised.value.message
    assert raised.value.hint


def test_a_key_that_occurs_twice_is_found_in_linear_time():
    """A vocabulary has a hundred thousand keys; compared one by one, they would take minutes."""
    keys = [f"piece {number}" for number in range(100_000)]
    text = json.dumps(dict.fromkeys(keys, 0)).encode()
    began = time.process_time()
    with pytest.raises(FolderError, match="key 'piece 99999' occurs twice"):
        parse_json(text[:-1] + b', "piece 99999": 1}', "vocab.json")
    assert time.process_time() - began < 5


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(FolderError, match=r"config\.json: No such file"):
        read_json(tmp_path / "config.json")
