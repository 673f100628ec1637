"""Where a model may be written: into a new or an empty folder, and not into a run."""

import os
from pathlib import Path

from regard.errors import FolderError
from regard.weights.checkpoint import is_run


def refuse_taken(target: Path) -> None:
    """Raises a FolderError unless `target`, which is to be written, is new or empty, and outside of runs.

    A run keeps what it resumes from in folders of models, which a model of the user would replace.
    """
    target = Path(os.path.realpath(target.expanduser()))
    for parent in target.parents:
        if os.path.lexists(parent) and not os.path.isdir(parent):
            raise FolderError(f"{parent} is a file", "choose a folder whose parents are folders")
        if is_run(parent):
            raise FolderError(f"{target} is inside the run folder {parent}", "choose a folder outside of it")
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise FolderError(f"{target} exists", "choose a new or an empty folder")
