"""JSON Lines: each line of a file is a record, a JSON object."""

import json
from collections.abc import Mapping
from typing import Any


def parse_record(line: str) -> dict[str, Any]:
    """The record of one line.

    NaN and Infinity, which many programs write although JSON has no such numbers, are read as floats.

    Raises:
        ValueError: the line is not JSON, or not an object.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({str(error).splitlines()[0]})") from None
    if not isinstance(record, dict):
        raise ValueError(f"a JSON {type(record).__name__}, not an object")
    return record


def text_field(record: Mapping[str, Any], key: str) -> str:
    """The text under a key of a record.

    Raises:
        ValueError: the key is missing, or its value is not text.
    """
    value = record.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key!r} is {'not text' if key in record else 'missing'}")
    return value
