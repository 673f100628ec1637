"""JSON Lines: each line of a file is a record, a JSON object."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any


def parse_record(line: str, *, refuses_duplicates: bool = True) -> dict[str, Any]:
    """The record of one line.

    NaN and Infinity, which many programs write although JSON has no such numbers, are read as floats.

    Raises:
        ValueError: the line is not JSON, or not an object; or an object has a key twice, unless it may.
    """
    try:
        record = json.loads(line, object_pairs_hook=without_duplicates if refuses_duplicates else None)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON ({str(error).splitlines()[0]})") from None
    if not isinstance(record, dict):
        raise ValueError(f"a JSON {type(record).__name__}, not an object")
    return record


def without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these keys and values: a hook for `json`, which keeps the last value of a key by itself.

    Raises:
        ValueError: a key occurs twice.
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"the key {next(name for name in counts if counts[name] > 1)!r} occurs twice")
    return values


def with_field(line: str, key: str, value: Any) -> str:
    """A record's line with one more key, after all others; what is in it stays as it is."""
    before = line.strip().removesuffix("}").rstrip()
    comma = "" if before == "{" else ", "
    return f"{before}{comma}{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}}}"


def text_field(record: Mapping[str, Any], key: str) -> str:
    """The text under a key of a record; "translation.en" is the key "en" of the object "translation".

    Raises:
        ValueError: the key is missing, or its value is not text.
    """
    found: Any = record
    for part in [key] if key in record else key.split("."):
        if not isinstance(found, Mapping) or part not in found:
            raise ValueError(f"{key!r} is missing")
        found = found[part]
    if not isinstance(found, str):
        raise ValueError(f"{key!r} is not text")
    return found
