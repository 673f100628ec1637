"""Data sets of the catalogue: list, show, download, check."""

from collections.abc import Callable
from pathlib import Path

from regard import console
from regard.data import catalogue
from regard.data.catalogue import DataSet, FileStatus
from regard.verbs.shared.arguments import checked


def data_list() -> list[DataSet]:
    """All data sets of the catalogue; a warning appears if REGARD_DATA does not name a folder."""
    if wrong := catalogue.wrong_data_folder():
        console.warn(wrong)
    return list(catalogue.data_sets().values())


@checked
def data_show(name: str) -> DataSet:
    """One data set: its title, licence, files and their addresses.

    Args:
        name: the data set's name in `data_list`.
    """
    return catalogue.data_set(name)


@checked
def data_get(
    name: str, *, progress: Callable[[str, int, int | None], None] = lambda path, done, total: None
) -> list[Path]:
    """Download the missing files of a data set into the user's cache and verify them; returns all paths.

    Args:
        name: the data set's name in `data_list`.
        progress: called with a file's path, its bytes so far, and its total bytes (None: unknown).
    """
    return catalogue.get(name, progress)


@checked
def data_check(name: str | None = None) -> dict[str, list[FileStatus]]:
    """The state of each file, by data set: of one data set, or of all that are here at least in part.

    Args:
        name: the data set; None is all.
    """
    names = [name] if name else list(catalogue.data_sets())
    checked_files = {each: catalogue.check(each) for each in names}
    return {
        each: files
        for each, files in checked_files.items()
        if name or any(file.state != "missing" for file in files)
    }
