"""Detection of a table's columns (texts, labels, numbers), and from them of its task."""

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from regard.counted import counted
from regard.data.column_names import (
    LABEL_NAMES,
    LANGUAGE_CODES,
    OTHER_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
    TEXT_NAMES,
)
from regard.data.tables import Table
from regard.errors import DataError
from regard.verbs.proposals.column_statistics import CellKind, Column, columns_of
from regard.verbs.proposals.questions import answered_questions
from regard.verbs.proposals.refused_columns import (
    SIMILAR,
    formatted_numbers,
    refuse_formatted_target,
    refuse_labelled_pairs,
    refuse_three_columns,
)

SUMMARY_NAMES = ("summary", "headline", "highlights", "abstract")

TableTask = Literal["images", "translation", "classification", "regression", "language_model"]


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The task of a table and its columns: source and target, text and label, or one text."""

    task: TableTask
    columns: tuple[str, ...]


def roles_of(table: Table, task: TableTask | None, wanted: Sequence[str]) -> Roles:
    """The task of a table and its columns; `task` and `wanted` columns are used if they are set.

    Raises:
        DataError: they cannot be detected, or the wanted columns do not exist.
    """
    columns = columns_of(table)
    if wanted:
        indices = table.columns(wanted)
        if len({*indices}) < len(indices):
            raise DataError(f"{table.path}: a column is named twice", "name two different columns")
        named = [columns[index] for index in indices]
        if task in (None, "classification", "regression"):
            refuse_three_columns(named)
            named = _text_first(named)
        given, task = task, task or _task_of_columns(named, table)
        needed = 1 if task == "language_model" else 2
        if task == "translation" and not given:
            refuse_formatted_target(table.path, named[-1])
        if len(named) != needed:
            raise DataError(
                f"{counted(len(named), 'column')} named for a task of kind {task}",
                "name one column, the text" if needed == 1 else "name two columns: --columns FIRST,SECOND",
            )
        return Roles(task=task, columns=_distinct(named, columns))
    if task in (None, "translation") and (found := answered_questions(table.path, columns, task)):
        return Roles(task="translation", columns=_distinct(found, columns))
    if task in (None, "classification", "regression"):
        refuse_labelled_pairs(table.path, columns)
    finders: dict[TableTask, _Finder] = {task: _FINDERS_OF_TASK[task]} if task else _DETECTORS
    for kind, find in finders.items():
        if columns_found := find(columns):
            if kind == "translation" and not task:
                refuse_formatted_target(table.path, columns_found[-1])
            return Roles(task=kind, columns=_distinct(columns_found, columns))
    raise _not_detected(table, columns, task)


def _distinct(chosen: Iterable[Column], columns: Sequence[Column]) -> tuple[str, ...]:
    """The names of the chosen columns; the number of one whose name another has too."""
    names = [each.name for each in columns]
    numbers = {id(each): str(number) for number, each in enumerate(columns)}
    return tuple(each.name if names.count(each.name) == 1 else numbers[id(each)] for each in chosen)


def _task_of_columns(named: Sequence[Column], table: Table) -> TableTask:
    """The task for the columns that the user named: one text, or a text and the kind of the second."""
    if len(named) == 1:
        return "language_model"
    if len(named) != 2:
        raise DataError(f"{table.path}: {len(named)} columns are named", "name two: --columns FIRST,SECOND")
    if named[0].names_images:
        return "images"
    kinds: dict[CellKind, TableTask] = {"label": "classification", "number": "regression"}
    by_name = _is_named(named, TEXT_NAMES, LABEL_NAMES)
    return kinds.get(named[1].kind, "classification" if by_name else "translation")


def _text_first(named: Sequence[Column]) -> list[Column]:
    """A text and its label, which may be named in the other order; other columns as they are."""
    if len(named) != 2:
        return [*named]
    first, second = named
    by_kind = first.kind in ("label", "number") and second.kind == "text"
    by_name = _is_named(named, LABEL_NAMES, TEXT_NAMES)
    return [second, first] if by_kind or by_name else [first, second]


def _is_named(columns: Sequence[Column], *names: Sequence[str]) -> bool:
    """True if each column has one of its names."""
    return all(column.short_name in known for column, known in zip(columns, names, strict=True))


def _pair(columns: Sequence[Column]) -> list[Column]:
    """Source and target: by their names, else two texts named after languages, else the first two texts.

    Titles, addresses and the like are passed over if there are other texts.
    """
    texts = [each for each in columns if each.kind == "text"]
    source, target = (_named(texts, names) for names in (SOURCE_NAMES, TARGET_NAMES))
    if source and target:
        return [source, target]
    languages = [
        each for each in texts if each.short_name in LANGUAGE_CODES or each.name.startswith("translation.")
    ]
    if len(languages) == 2:
        return languages
    found = _without_other_names(texts)
    texts = found if len(found) >= 2 else texts
    return texts[:2] if len(texts) >= 2 else []


def _without_other_names(columns: Sequence[Column]) -> list[Column]:
    return [each for each in columns if each.short_name not in OTHER_NAMES]


def _pair_without_label(columns: Sequence[Column]) -> list[Column]:
    """Source and target, unless there is a label and neither is named as a source, or one text is alone.

    It is alone if all others have names such as title or url, or if it is called `text` and the other of the
    pair is much shorter or longer and not called as a target.
    """
    pair = _pair(columns)
    if any(each.short_name in OTHER_NAMES for each in pair):
        return []
    if any(each.short_name == TEXT_NAMES[0] for each in pair):
        lengths = sorted(each.mean_length for each in pair)
        known = _named(pair, [*TARGET_NAMES, *SUMMARY_NAMES]) or formatted_numbers(pair)
        if lengths[0] < SIMILAR * lengths[1] and not known:
            return []
    label = _named([each for each in columns if each.kind == "label"], LABEL_NAMES)
    named = pair and (_is_named(pair, TEXT_NAMES, LABEL_NAMES) or _is_named(pair, LABEL_NAMES, TEXT_NAMES))
    return [] if (label or named) and {each.short_name for each in pair}.isdisjoint(SOURCE_NAMES) else pair


def _text_and(
    kind: CellKind, otherwise: CellKind | None = None
) -> Callable[[Sequence[Column]], list[Column]]:
    """A finder of text and label, a column of `kind`: by names, else the longest text and the only label."""

    def find(columns: Sequence[Column]) -> list[Column]:
        text = _text(columns)
        for each in (kind, otherwise):
            labels = [column for column in columns if column.kind == each and column is not text]
            label = _named(labels, [*LABEL_NAMES, *TARGET_NAMES]) or (labels[0] if len(labels) == 1 else None)
            if text and label:
                return [text, label]
        return []

    return find


def _text(columns: Sequence[Column]) -> Column | None:
    texts = [each for each in columns if each.kind == "text"]
    return _named(texts, TEXT_NAMES) or max(texts, key=lambda each: each.mean_length, default=None)


def _one_text(columns: Sequence[Column]) -> list[Column]:
    return [text] if (text := _text(columns)) else []


def _only_text(columns: Sequence[Column]) -> list[Column]:
    used = [each for each in _without_other_names(columns) if each.kind != "other"]
    names = {each.short_name for each in used}
    others = not names.isdisjoint(LABEL_NAMES) or formatted_numbers(used)
    return _one_text(columns) if len(used) == 1 or (TEXT_NAMES[0] in names and not others) else []


def _named(columns: Sequence[Column], names: Sequence[str]) -> Column | None:
    """The column with the first of these names, or with it as a part, as "text" in `review_text`."""
    exact = (each for name in names for each in columns if each.short_name == name)
    parts = (each for name in names for each in columns if name in re.split(r"[\W_]+", each.short_name))
    return next(itertools.chain(exact, parts), None)


def _image_and_label(columns: Sequence[Column]) -> list[Column]:
    """The names of image files and their labels: by name, else the only label, or the only other column."""
    images = [each for each in columns if each.names_images]
    others = [each for each in columns if each.kind != "other" and each not in images]
    labels = [each for each in others if each.kind == "label"] or others
    label = _named(others, LABEL_NAMES) or (labels[0] if len(labels) == 1 else None)
    return [images[0], label] if images and label else []


_Finder = Callable[[Sequence[Column]], list[Column]]
_DETECTORS: dict[TableTask, _Finder] = {  # if the task is not known, in the order in which they are tried
    "images": _image_and_label,
    "translation": _pair_without_label,
    "classification": _text_and("label"),
    "regression": _text_and("number"),
    "language_model": _only_text,
}
_FINDERS_OF_TASK: dict[TableTask, _Finder] = {
    "images": _image_and_label,
    "translation": _pair,
    "classification": _text_and("label", "number"),
    "regression": _text_and("number", "label"),
    "language_model": _one_text,
}


def _not_detected(table: Table, columns: Sequence[Column], task: TableTask | None) -> DataError:
    shown = ", ".join(f"{each.name!r} ({each.kind})" for each in columns[:12])
    translation = "--columns SOURCE,TARGET for a translation"
    labelled = "--columns TEXT,LABEL for classification"
    by_task = {"translation": translation, "classification": labelled}
    hint = f"name the columns: {by_task.get(task or '', f'{translation}, {labelled}')}"
    labels = [each for each in columns if each.short_name in LABEL_NAMES and len(each.values) == 1]
    if labels and task in (None, "classification", "regression"):
        [value] = labels[0].values
        return DataError(
            f"{table.path}: all values of the column {labels[0].name!r} are {value!r}",
            "give texts with different labels, or name another column: --columns TEXT,LABEL",
        )
    if task in (None, "regression") and (found := formatted_numbers(columns)):
        return DataError(f"{table.path}: {found}", "write it as 1007.5, without separators and units")
    missing = f"the columns for {task}" if task else "its task"
    return DataError(f"{table.path}: cannot detect {missing} from its columns: {shown}", hint)
