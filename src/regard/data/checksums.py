"""SHA-256 checksums of tokenised data on disk, so that no model is trained on damaged files."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import DataError

CHECKSUM_KEY = "sha256"


def checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder, by file name."""
    return {path.name: _sha256(path) for path in sorted(folder.iterdir())}


def refuse_changed(folder: Path, written: Mapping[str, str]) -> None:
    """Raises a DataError if a file is missing or has another SHA-256 than in `written`, by file name."""
    for name, digest in written.items():
        if _sha256(folder / name) != digest:
            raise DataError(
                f"{folder / name} was changed after it was written: its SHA-256 differs",
                "check the disk, and remove the folder: the next run writes it again",
            )


def dump_with_checksum(table: Mapping[str, Any]) -> str:
    """A table as JSON, with its own SHA-256 under `sha256`; `load_with_checksum` reads it."""
    return json.dumps({**table, CHECKSUM_KEY: _digest(table)}, indent=1)


def load_with_checksum(text: str) -> dict[str, Any]:
    """Reads a table and verifies its SHA-256; a table without one, of an older version, is not verified.

    Raises:
        ValueError: the text is not JSON, not an object, or its SHA-256 differs.
    """
    table = json.loads(text)
    if not isinstance(table, dict):
        raise ValueError("no table")
    checksum = table.pop(CHECKSUM_KEY, None)
    if checksum is not None and checksum != _digest(table):
        raise ValueError("its SHA-256 differs")
    return table


def _digest(table: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode("ascii")).hexdigest()


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(
            f"{path}: {error.strerror}", "remove the folder: the next run writes it again"
        ) from error
