"""Reads the arrays of an .npz file, without pickle."""

import os
import zipfile
from pathlib import Path

import numpy as np

from regard.data.folder_file import checked_inside
from regard.data.memory import refuse_beyond_memory
from regard.errors import FolderError

MAX_ARRAYS = 100_000


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file; those of objects, which are pickles, are refused.

    Raises:
        FolderError: the file is damaged or has objects.
        DataError: its arrays would not fit into memory.
    """
    checked_inside(path)
    try:
        with zipfile.ZipFile(os.fspath(path)) as archive:
            members = archive.infolist()
            refuse_beyond_memory(sum(each.file_size for each in members), path)
            if len(members) > MAX_ARRAYS:
                raise FolderError(f"{path} has {len(members):,} arrays", "it is not a model")
        with np.load(os.fspath(path), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, KeyError) as error:
        why = " ".join(str(error).split())[:200]
        raise FolderError(f"{path} is not a file of plain arrays: {why}", "copy it again") from error
