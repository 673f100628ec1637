"""JSON that means one thing: no NaN, no key twice, no nesting without end; an object at the top."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.data.folder_file import read_file
from regard.errors import FolderError, RunError

HINT = "the file is damaged or of another kind: copy the folder anew, or use another checkpoint"


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """`value` as readable JSON. Numbers survive exactly; NaN and infinity are refused."""
    try:
        return (json.dumps(value, allow_nan=False, indent=2) + "\n").encode("ascii")
    except ValueError as error:
        raise RunError(f"cannot be written as JSON: {error}") from error


def read_json(path: Path, folder: Path | None = None) -> dict[str, Any]:
    """The object in a file of a folder, which `read_file` may read."""
    return parse_json(read_file(path, folder), str(path))


def parse_json(text: bytes, where: str) -> dict[str, Any]:
    """The object that `text` spells; `where` names the file in the error."""
    try:
        value = json.loads(
            text.decode("utf-8"),
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=_no_repeats,
        )
    except RecursionError:
        raise FolderError(f"{where}: nested too deeply", HINT) from None
    except ValueError as error:  # of JSON, of UTF-8, of an integer too long, and ours
        raise FolderError(f"{where}: {error}", HINT) from None
    if not isinstance(value, dict):
        raise FolderError(f"{where}: holds {type(value).__name__} where an object is expected", HINT)
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(n for n in names if names.count(n) > 1)!r} stands twice")
    return values
