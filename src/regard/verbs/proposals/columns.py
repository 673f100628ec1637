"""What the columns of a table hold: texts, labels or numbers; and so which task it is for."""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from regard.data.tables import (
    LABEL_NAMES,
    LANGUAGES,
    OTHER_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
    TEXT_NAMES,
    Table,
    is_number,
)
from regard.errors import DataError

SURVEYED = 20_000  # records that are looked at
MOST_CLASSES = 500
LONGEST_LABEL = 40  # characters, in the mean

Kind = Literal["text", "label", "number", "other"]
TableTask = Literal["translation", "classification", "regression", "language_model"]


@dataclass(kw_only=True)
class Column:
    """What was seen in a column."""

    name: str
    values: set[str] = field(default_factory=set)
    filled: int = 0
    characters: int = 0
    numbers: bool = True
    whole: bool = True
    rising: bool = True  # each a whole number and larger than the one before: numbers of records
    _last: float = float("-inf")

    def see(self, cell: str | None) -> None:
        if cell is None or not cell.strip():
            return
        self.filled += 1
        self.characters += len(cell)
        self.values.add(cell)
        self.numbers = self.numbers and is_number(cell)
        self.whole = self.whole and self.numbers and cell.strip().lstrip("-+").isdecimal()
        self.rising = self.rising and self.whole and float(cell) > self._last
        self._last = float(cell) if self.numbers else self._last

    @property
    def short_name(self) -> str:
        """`translation.en` is en."""
        return self.name.rpartition(".")[2].casefold()

    @property
    def mean_length(self) -> float:
        return self.characters / max(self.filled, 1)

    @property
    def kind(self) -> Kind:
        few = 1 < len(self.values) <= min(MOST_CLASSES, max(2, self.filled // 8))
        if not self.filled or self.short_name in ("id", "idx", "index") or (self.rising and self.filled > 2):
            return "other"
        if (
            few
            and self.mean_length <= LONGEST_LABEL
            and (not self.numbers or (self.whole and len(self.values) <= 20))
        ):
            return "label"
        return "number" if self.numbers else "text" if len(self.values) > 1 else "other"


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The task of a table, and the columns that it reads: source and target, text and label, or one text."""

    task: TableTask
    columns: tuple[str, ...]


def columns_of(table: Table) -> list[Column]:
    """What the first records hold."""
    columns = [Column(name=name) for name in table.names]
    for record in itertools.islice(table.records(), SURVEYED):
        for column, cell in zip(columns, record.cells, strict=True):
            column.see(cell)
    return columns


def roles_of(table: Table, task: TableTask | None, wanted: Sequence[str]) -> Roles:
    """The task of a table and its columns, as far as they are not given.

    Raises:
        DataError: they cannot be told, or there are no such columns.
    """
    columns = columns_of(table)
    if wanted:
        given = [columns[place] for place in table.columns(wanted)]
        task = task or _task_of_given(given, table)
        needed = 1 if task == "language_model" else 2
        if len(given) != needed:
            raise DataError(
                f"{len(given)} column{'s' * (len(given) != 1)} named for a task of kind {task}",
                "name one column, the text" if needed == 1 else "name two columns: --columns FIRST,SECOND",
            )
        return Roles(task=task, columns=tuple(each.name for each in given))
    finders: dict[TableTask, _Finder] = {task: _ASKED[task]} if task else _SURE
    for kind, find in finders.items():
        if found := find(columns):
            return Roles(task=kind, columns=tuple(each.name for each in found))
    raise _untold(table, columns, task)


def _task_of_given(given: Sequence[Column], table: Table) -> TableTask:
    if len(given) == 1:
        return "language_model"
    if len(given) != 2:
        raise DataError(f"{table.path}: {len(given)} columns are named", "name two: --columns FIRST,SECOND")
    kinds: dict[Kind, TableTask] = {"label": "classification", "number": "regression"}
    return kinds.get(given[1].kind, "translation")


def _pair(columns: Sequence[Column]) -> list[Column]:
    """Source and target: by their names, else two texts with names of languages, else the first two."""
    texts = [each for each in columns if each.kind == "text"]
    source, target = (_named(texts, names) for names in (SOURCE_NAMES, TARGET_NAMES))
    if source and target:
        return [source, target]
    spoken = [each for each in texts if each.short_name in LANGUAGES or each.name.startswith("translation.")]
    if len(spoken) == 2:
        return spoken
    return texts[:2] if len(texts) >= 2 else []


def _sure_pair(columns: Sequence[Column]) -> list[Column]:
    """A pair, where no label stands beside it."""
    named = _named([each for each in columns if each.kind == "label"], LABEL_NAMES)
    found = _pair(columns)
    return [] if named and {each.short_name for each in found}.isdisjoint(SOURCE_NAMES) else found


def _text_and(kind: Kind, otherwise: Kind | None = None) -> Callable[[Sequence[Column]], list[Column]]:
    """A text and, of this kind, its label: by their names, else the longest text and the only label."""

    def find(columns: Sequence[Column]) -> list[Column]:
        text = _text(columns)
        for each in (kind, otherwise):
            others = [column for column in columns if column.kind == each and column is not text]
            label = _named(others, [*LABEL_NAMES, *TARGET_NAMES]) or (others[0] if len(others) == 1 else None)
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
    used = [each for each in columns if each.kind != "other" and each.short_name not in OTHER_NAMES]
    return _one_text(columns) if len(used) == 1 else []


def _named(columns: Sequence[Column], names: Sequence[str]) -> Column | None:
    """The column of the first of these names, or one that has it as a part, as `review_text` has text."""
    exact = (each for name in names for each in columns if each.short_name == name)
    parts = (each for name in names for each in columns if name in re.split(r"[\W_]+", each.short_name))
    return next(itertools.chain(exact, parts), None)


_Finder = Callable[[Sequence[Column]], list[Column]]
_SURE: dict[TableTask, _Finder] = {  # in the order in which they are tried
    "translation": _sure_pair,
    "classification": _text_and("label"),
    "regression": _text_and("number"),
    "language_model": _only_text,
}
_ASKED: dict[TableTask, _Finder] = {
    "translation": _pair,
    "classification": _text_and("label", "number"),
    "regression": _text_and("number", "label"),
    "language_model": _one_text,
}


def _untold(table: Table, columns: Sequence[Column], task: TableTask | None) -> DataError:
    shown = ", ".join(f"{each.name!r} ({each.kind})" for each in columns[:12])
    hint = (
        "name the columns: --columns SOURCE,TARGET for a translation, --columns TEXT,LABEL for classification"
    )
    what = f"which columns are for {task}" if task else "which task it is for"
    return DataError(f"{table.path}: its columns do not tell {what}: {shown}", hint)
