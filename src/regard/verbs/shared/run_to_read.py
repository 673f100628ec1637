"""What is wrong with a path that was given as a run, for commands that read what a run has written."""

from pathlib import Path

from regard.errors import FolderError
from regard.weights.checkpoint import is_run


def no_run(path: Path, lacks: str, compare: str = "give one of them") -> FolderError:
    """The error for `path`, which lacks what a run has after its first updates.

    Args:
        lacks: what it has none of, such as "checkpoints".
        compare: what else can be done with a folder of runs, as the end of a hint.
    """
    given = "give a run folder that `regard train` wrote, such as runs/NAME"
    if not path.exists():
        return FolderError(f"{path} does not exist", given)
    if not path.is_dir():
        return FolderError(f"{path} is a file, not a run folder", given)
    if is_run(path):
        return FolderError(
            f"{path}: the run is at step 0 and has no {lacks} yet", f"resume it: regard train {path}"
        )
    runs = sorted(each.name for each in path.iterdir() if is_run(each))
    names = ", ".join(runs[:5])
    return FolderError(f"{path} has no {lacks}", f"it has runs: {names}; {compare}" if runs else given)
