"""Where a model may be written: into a new or an empty folder, and not among what a run keeps."""

import os
from pathlib import Path

from regard.errors import FolderError
from regard.weights.checkpoint import REFIT, is_run

KEPT = ("best", "checkpoints", "data", REFIT)  # folders that a run writes and reads in itself


def refuse_taken(target: Path) -> None:
    """Raises a FolderError unless `target`, which is to be written, is new or empty, and no part of a run.

    A run keeps what it resumes from in folders of models, which a model of the user would replace.
    """
    target = Path(os.path.realpath(target.expanduser()))
    for parent in target.parents:
        if os.path.lexists(parent) and not os.path.isdir(parent):
            raise FolderError(f"{parent} is a file", "choose a folder whose parents are folders")
        name = target.relative_to(parent).parts[0]
        if is_run(parent) and (name in KEPT or name.startswith(".")):
            raise FolderError(
                f"{target} is a part of the run {parent}", f"choose a folder outside of {parent / name}"
            )
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise FolderError(f"{target} exists", "choose a new or an empty folder")
