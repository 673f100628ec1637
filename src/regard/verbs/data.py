"""Known data sets: list, show, get, check."""

from collections.abc import Callable
from pathlib import Path

from regard.data import catalogue
from regard.data.catalogue import DataSet, FileStatus
from regard.verbs.arguments import checked


def data_list() -> list[DataSet]:
    """Every data set that regard knows."""
    return list(catalogue.data_sets().values())


@checked
def data_show(name: str) -> DataSet:
    """One data set: its title, licence, files and where they come from.

    Args:
        name: of the data set, as `data_list` has it.
    """
    return catalogue.data_set(name)


@checked
def data_get(
    name: str, *, progress: Callable[[str, int, int | None], None] = lambda path, done, total: None
) -> list[Path]:
    """Download what is missing of a data set into the user's cache, verified; the paths of all its files.

    Args:
        name: of the data set, as `data_list` has it.
        progress: called with a file's path, the bytes that are there, and how many there will be (None:
            unknown).
    """
    return catalogue.get(name, progress)


@checked
def data_check(name: str | None = None) -> dict[str, list[FileStatus]]:
    """What was found of each file, by data set: of one, or of all that are here at least in part.

    Args:
        name: of the data set; all without.
    """
    names = [name] if name else list(catalogue.data_sets())
    looked = {each: catalogue.check(each) for each in names}
    return {
        each: files
        for each, files in looked.items()
        if name or any(file.state != "missing" for file in files)
    }
