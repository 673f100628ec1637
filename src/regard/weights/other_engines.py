"""Folders of models that other engines read, and regard does not."""

import os
from pathlib import Path

from regard.errors import FolderError

EXPORT = "export.json"  # in each folder of `regard export`
CTRANSLATE2 = "model.bin"  # beside a vocabulary


def refuse_other_engine(folder: Path) -> None:
    """Raises a FolderError for a folder of CTranslate2, or an export of regard for another engine."""
    if os.path.isfile(folder / EXPORT):
        raise FolderError(f"{folder} is an export for another engine", "give the model that was exported")
    if is_ctranslate2(folder):
        raise FolderError(
            f"{folder} is a model of CTranslate2, which regard does not read",
            "give the model that it was converted from",
        )


def is_ctranslate2(folder: Path) -> bool:
    """True if `folder` has a model of CTranslate2."""
    return os.path.isfile(folder / CTRANSLATE2) and any(folder.glob("*vocabulary.*"))
