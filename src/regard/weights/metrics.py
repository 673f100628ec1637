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
    line = (json.dumps(_without_non_finite(record), allow_nan=False) + "\n").encode("ascii")
    with os_errors("write", path), path.open("ab", buffering=0) as file:
        file.write(line)


def read_records(path: Path) -> list[dict[str, Any]]:
    """All records in order, without an incomplete last line, which a killed writer can leave."""
    with os_errors("read", path):
        content = path.read_bytes() if path.exists() else b""
    return [record for _, record in _lines(path, content)]


def with_new_names(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record in which chrF++ has its name, which is "chrf" in older runs."""
    return {"chrf++" if name == "chrf" else name: value for name, value in record.items()}


def cut_records(path: Path, step: int) -> None:
    """Removes the records after `step`, which the resumed run measures again."""
    with os_errors("read", path):
        content = path.read_bytes() if path.exists() else b""
    kept = b"".join(line for line, record in _lines(path, content) if _step(record) <= step)
    if kept != content:
        replace_file(path, kept)


def flush_records(path: Path) -> None:
    """Flushes the file to disk."""
    with os_errors("write", path):
        if path.exists():
            descriptor = os.open(path, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _without_non_finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {name: _without_non_finite(item) for name, item in value.items()}
        case list() | tuple():
            return [_without_non_finite(item) for item in value]
    return value


def _step(record: Mapping[str, Any]) -> int:
    match record.get("step"):
        case int(step):
            return step
    return 0  # a record about the whole run


def _lines(path: Path, content: bytes) -> list[tuple[bytes, dict[str, Any]]]:
    """The complete lines of the file and their records."""
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
