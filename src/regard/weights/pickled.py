"""Reads the tensors of a pickle in a child process that can build only tensors."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.data.folder_file import checked_inside, refuse_large_file
from regard.errors import FolderError
from regard.weights.strict_json import read_json
from regard.weights.tensors import read_tensors
from regard.weights.unpickle import SETTINGS

PATIENCE = 3600  # seconds that reading a pickle may take
TRUST = "regard convert FOLDER --trust-pickle --out DIR reads only its tensors, in a child process"


def refuse_untrusted(path: Path, *, trust_pickle: bool) -> None:
    """Raises a FolderError for a pickle unless `trust_pickle`."""
    if not trust_pickle:
        raise FolderError(f"{path} is a pickle, which can run code when it is loaded", TRUST)


def read_pickle(path: Path, layout: str = "") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a pickle, and its settings; `layout` is that of a toolkit's checkpoint (`unpickle.py`).

    Raises:
        FolderError: the file is damaged, or has anything else.
    """
    refuse_large_file(checked_inside(path))
    with tempfile.TemporaryDirectory() as folder:
        safe, settings = Path(folder) / "model.safetensors", Path(folder) / SETTINGS
        child = subprocess.run(  # noqa: S603 (our own module, no shell)
            [sys.executable, "-m", "regard.weights.unpickle", os.fspath(path), os.fspath(safe), layout],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if child.returncode or not safe.is_file():
            why = (child.stderr.strip().splitlines() or ["the process died"])[-1]
            raise FolderError(f"{path}: {why[:300]}", "the file is damaged or has more than tensors")
        return read_tensors(safe), read_json(settings) if settings.is_file() else {}
