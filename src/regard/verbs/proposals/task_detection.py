"""Detection of the task of input files, from their number, names and lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from regard.counted import counted
from regard.data.chats import MESSAGES, refuse_chats
from regard.data.column_names import LABEL_NAMES, WORD_LIST_NAMES
from regard.data.tables import SUFFIXES, Table, format_of, list_keys, open_table, refused_lists
from regard.data.word_columns import word_format
from regard.errors import DataError, RecipeError, did_you_mean
from regard.verbs.proposals.columns import roles_of
from regard.verbs.proposals.input_files import InputFiles, has_images, path_of, text_files

MOST_NAMED = 5  # columns that are not used

TaskName = Literal["translation", "classification", "regression", "tagging", "language_model", "images"]


@dataclass(frozen=True, kw_only=True)
class DetectedTask:
    """The task, its columns if the file is a table, and how the file is read, in words."""

    task: TaskName
    columns: tuple[str, ...] = ()
    reading: str = ""


def detect_task(files: InputFiles, task: str | None, columns: Sequence[str]) -> DetectedTask:
    """The task of the files; `task` and `columns` are used if they are set.

    Raises:
        DataError: the task cannot be detected from the columns of a table, or the columns do not exist; or a
            folder is given for another task than images.
        RecipeError: the task is unknown, or needs another number of files.
    """
    wanted = _task_name(task)
    _check_number_of_files(files, wanted)
    found = _detected(files, wanted, columns)
    folders = [each for each in files.paths() if each.is_dir()]
    if found.task == "language_model":
        folders = [each for each in folders if not text_files(each, within=True)]
    if found.task != "images" and folders:
        texts = "; a folder of .txt files is read as texts" * (found.task == "language_model")
        raise DataError(f"{folders[0]} is a folder", f"name a file in it{texts}")
    return found


def _detected(files: InputFiles, wanted: TaskName | None, columns: Sequence[str]) -> DetectedTask:
    if len(files.train) == 1 and files.path("train").is_dir() and wanted in (None, "language_model"):
        folder = files.path("train")
        found = text_files(folder, within=wanted is not None)
        if wanted is not None or (found and not has_images(folder)):
            if columns:
                raise RecipeError("a folder of texts has no columns", "leave out --columns")
            reading = f"language_model ({counted(len(found), '.txt file')}, each a text)"
            return DetectedTask(task="language_model", reading=reading)
    if len(files.train) == 1 and files.path("train").is_dir() and wanted in (None, "images"):
        return DetectedTask(task="images", reading="images (a folder for each class)")
    if folders := [path for path in map(path_of, files.train) if path.is_dir()]:
        raise DataError(f"{folders[0]} is a folder", "name a file in it")
    if len(files.train) == 2:
        if columns:
            raise RecipeError("two aligned files have no columns", "leave out --columns")
        _refuse_tables(files.train)
        return DetectedTask(task="translation")
    path = files.path("train")
    words = word_format(path)
    if wanted == "tagging" or (wanted is None and words):
        if columns and words == "columns":
            raise RecipeError(
                f"{path} has a word and its label per line, and the label is the last column",
                "leave out --columns; a CoNLL-U file has several columns of labels",
            )
        kind = "CoNLL-U" if words == "conllu" else "a word and its label per line"
        return DetectedTask(task="tagging", columns=tuple(columns), reading=f"tagging ({kind})")
    kind = format_of(path)
    if kind is None and wanted in ("translation", "regression", "images"):
        kind = "tsv"
    if kind is None and wanted == "classification":
        kind = "labelled"
    if kind is None or (wanted == "language_model" and kind == "labelled"):
        if columns:
            raise RecipeError(
                f"{path} is running text, which has no columns", "leave out --columns, or set --task"
            )
        return DetectedTask(task="language_model", reading="language_model (running text)")
    if kind == "jsonl" and (not columns or not set(MESSAGES).isdisjoint(columns)):
        refuse_chats(path)
    table = open_table(path, kind)
    lists = list_keys(path) if kind == "jsonl" else ()
    unread = _lists_of_labels(table, lists, columns)
    try:
        roles = roles_of(table, wanted, columns)
    except DataError:
        if unread:
            raise refused_lists(path, unread) from None
        raise
    if unread and wanted is None and roles.task == "language_model":
        raise refused_lists(path, unread)
    names = " and ".join(name if table.named else f"number {name}" for name in roles.columns)
    unused = _unused(table, roles.columns, lists)
    reading = f"{roles.task} (column{'s' * (len(roles.columns) > 1)} {names}{unused})"
    return DetectedTask(task=roles.task, columns=roles.columns, reading=reading)


def _lists_of_labels(table: Table, lists: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The lists of words or of labels: those that `columns` name, or else by their names."""
    names = {*LABEL_NAMES, *WORD_LIST_NAMES}
    return [
        name
        for name in lists
        if (name in columns if columns else name.rpartition(".")[2].casefold() in names)
        and name not in table.names
    ]


def _unused(table: Table, columns: Sequence[str], lists: Sequence[str] = ()) -> str:
    """The columns and `lists` that are not used, to end a message; empty if there are none."""
    used = set(table.columns(columns))
    others = [
        name if table.named else f"number {number}"
        for number, name in enumerate(table.names)
        if number not in used
    ]
    others += [f"{name} (lists)" for name in lists if name not in table.names]
    if not others:
        return ""
    more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
    return f"; not used: {', '.join(others[:MOST_NAMED])}{more}"


def _refuse_tables(files: Sequence[str]) -> None:
    """Raise a RecipeError if one of two aligned files is a table."""
    for file in files:
        if Path(file.lower().removesuffix(".gz")).suffix in (*SUFFIXES, ".conllu"):
            raise RecipeError(
                f"{file} is a table, not one of two aligned files",
                "name one table; others go after --valid and --test",
            )


def _task_name(task: str | None) -> TaskName | None:
    if task is None:
        return None
    known: dict[str, TaskName] = {name: name for name in get_args(TaskName)}
    name = task.strip().lower().replace("-", "_").replace(" ", "_")
    if name not in known:
        raise RecipeError(f"unknown task {task!r}", did_you_mean(name, known))
    return known[name]


def _check_number_of_files(inputs: InputFiles, task: TaskName | None) -> None:
    """Raise a RecipeError if another task than a translation has two files, or parts differ in number."""
    for part, files in inputs.parts():
        if len(files) == 2 and task not in (None, "translation"):
            raise RecipeError(f"task {task!r} reads one file for {part}, not two", "name one file")
        if len(files) == 2 and len(inputs.train) == 1 and task is None:
            raise RecipeError(
                f"two files for {part}, and one to train on",
                "name both sides of each, or add --task translation",
            )
        if (
            len(files) == 1
            and len(inputs.train) == 2
            and part != "train"
            and format_of(inputs.path(part)) is None
        ):
            raise RecipeError(
                f"one file for {part}, and two to train on", f"name both sides: --{part} SOURCE TARGET"
            )
