"""Strict JSON objects: no NaN, no duplicate keys, no unbounded nesting."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.data.folder_file import read_file
from regard.data.json_lines import without_duplicates
from regard.errors import FolderError, RunError

DAMAGED_HINT = "the file is damaged or has another format: copy the folder again, or use another checkpoint"


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """`value` as indented JSON, which `parse_json` reads back exactly.

    Raises:
        RunError: a number is NaN or infinite.
    """
    try:
        return (json.dumps(value, allow_nan=False, indent=2) + "\n").encode("ascii")
    except ValueError as error:
        raise RunError(f"cannot be written as JSON: {error}") from error


def read_json(path: Path, folder: Path | None = None) -> dict[str, Any]:
    """Reads a JSON object from a file of `folder`, by default the file's parent.

    Raises:
        FolderError: the file is not one strict JSON object, or refused by `read_file`.
        RunError: the disk failed.
    """
    return parse_json(read_file(path, folder), str(path))


def parse_json(text: bytes, where: str) -> dict[str, Any]:
    """Parses a JSON object; `where` is the file's name for messages.

    Raises:
        FolderError: the text is not strict JSON, or not an object.
    """
    try:
        value = json.loads(
            text.decode("utf-8"),
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=without_duplicates,
        )
    except RecursionError:
        raise FolderError(f"{where}: nested too deeply", DAMAGED_HINT) from None
    except ValueError as error:  # invalid JSON or UTF-8, a too long integer, or the hooks below
        raise FolderError(f"{where}: {error}", DAMAGED_HINT) from None
    if not isinstance(value, dict):
        raise FolderError(f"{where}: has {type(value).__name__} where an object is expected", DAMAGED_HINT)
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large")
    return number
