"""`metrics.jsonl`: the measurements of a run, one JSON object per line."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.data.os_errors import os_errors
from regard.errors import FolderError
from regard.weights.folder import replace_file
from regard.weights.strict_json import parse_json


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Appends a record. NaN and infinity, which JSON does not have, are written as null."""
    line = (json.dumps(_finite(record), allow_nan=False) + "\n").encode("ascii")
    with os_errors("write", path), path.open("ab", buffering=0) as file:
        file.write(line)


def read_records(path: Path) -> list[dict[str, Any]]:
    """All records in order, without a last line that a killed writer left incomplete.

    Raises:
        FolderError: another line is not a JSON object.
    """
    return [record for _, record in _records(path, _content(path))]


def with_new_names(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record in which chrF++ has its name, which is "chrf" in older runs."""
    return {"chrf++" if name == "chrf" else name: value for name, value in record.items()}


def cut_records(path: Path, step: int) -> None:
    """Removes the records after `step`, which the resumed run measures again."""
    content = _content(path)
    kept = b"".join(line for line, record in _records(path, content) if _step(record) <= step)
    if kept != content:
        replace_file(path, kept)


def flush_records(path: Path) -> None:
    """Waits until all records are on disk (fsync)."""
    with os_errors("write", path):
        if path.exists():
            descriptor = os.open(path, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _content(path: Path) -> bytes:
    with os_errors("read", path):
        return path.read_bytes() if path.exists() else b""


def _finite(value: Any) -> Any:
    """The value with null for each number that is not finite."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {name: _finite(item) for name, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value


def _step(record: Mapping[str, Any]) -> int:
    match record.get("step"):
        case int(step):
            return step
    return 0  # a record about the whole run


def _records(path: Path, content: bytes) -> list[tuple[bytes, dict[str, Any]]]:
    """Each line and its record, without a last line that is incomplete or damaged."""
    lines = content.splitlines(keepends=True)
    records = []
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            break
        try:
            records.append((line, parse_json(line, f"{path}, line {number}")))
        except FolderError as error:
            if number < len(lines):
                raise FolderError(error.message, "delete that line") from error
    return records
