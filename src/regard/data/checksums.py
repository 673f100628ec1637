"""SHA-256 of the files of a preparation: a disk that lies is told before a model is trained on it."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.errors import DataError

SEAL = "sha256"


def checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder, by its name."""
    return {path.name: _sha256(path) for path in sorted(folder.iterdir())}


def refuse_changed(folder: Path, written: Mapping[str, str]) -> None:
    """Raise a DataError unless the files of a folder are as they were written."""
    for name, digest in written.items():
        if _sha256(folder / name) != digest:
            raise DataError(
                f"{folder / name} is not as it was written: its SHA-256 differs",
                "remove the folder; it is made again. Check the disk",
            )


def sealed(table: Mapping[str, Any]) -> str:
    """A table as JSON, with the SHA-256 of all the rest in it."""
    return json.dumps({**table, SEAL: _digest(table)}, indent=1)


def unsealed(text: str) -> dict[str, Any]:
    """The table again; one of an older version has no seal.

    Raises:
        ValueError: it is no JSON, no table, or not as it was written.
    """
    table = json.loads(text)
    if not isinstance(table, dict):
        raise ValueError("no table")
    seal = table.pop(SEAL, None)
    if seal is not None and seal != _digest(table):
        raise ValueError("its SHA-256 differs")
    return table


def _digest(table: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode("ascii")).hexdigest()


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "remove the folder; it is made again") from error
