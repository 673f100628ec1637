"""`metrics.jsonl`: what a run measured, one JSON object a line, cut back to the step that is resumed."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import FolderError
from regard.weights.folder import replace_file, told
from regard.weights.strict_json import parse_json


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Add one line. A number that is not finite is written as null, which JSON has and NaN it has not."""
    line = (json.dumps(_plain(record), allow_nan=False) + "\n").encode("ascii")
    with told("write", path), path.open("ab", buffering=0) as file:
        file.write(line)


def read_records(path: Path) -> list[dict[str, Any]]:
    """All records in order; a last line cut short by a kill is left out."""
    with told("read", path):
        content = path.read_bytes() if path.exists() else b""
    return [record for _, record in _lines(path, content)]


def cut_records(path: Path, step: int) -> None:
    """Drop the records after `step`, which the resumed run will measure again."""
    with told("read", path):
        content = path.read_bytes() if path.exists() else b""
    kept = b"".join(line for line, record in _lines(path, content) if _step(record) <= step)
    if kept != content:
        replace_file(path, kept)


def flush_records(path: Path) -> None:
    with told("write", path):
        if path.exists():
            descriptor = os.open(path, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _plain(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {name: _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    return value


def _step(record: Mapping[str, Any]) -> int:
    match record.get("step"):
        case int(step):
            return step
    return 0  # a record of the run as a whole


def _lines(path: Path, content: bytes) -> list[tuple[bytes, dict[str, Any]]]:
    lines = content.splitlines(keepends=True)
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append((line, parse_json(line, f"{path}, line {number}")))
        except FolderError as error:
            if number == len(lines):
                break
            raise FolderError(error.message, "delete that line") from error
        if not line.endswith(b"\n"):
            records.pop()
    return records
