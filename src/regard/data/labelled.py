"""Labelled texts from TSV, JSON Lines or lines with a label first; label sets, splits, class weights."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from regard.data.corpus import Corpus, LinePolicy, Pair
from regard.data.corpus_formats import Problem, Row
from regard.data.files import locate, read_lines
from regard.data.json_lines import parse_record, text_field
from regard.data.noise import derive_seed
from regard.data.tables import format_by_name, one_line, open_table
from regard.errors import DataError, RecipeError, did_you_mean
from regard.recipe import check_types

UNLABELLED = "without a label"


@dataclass(frozen=True, kw_only=True)
class LabelledSettings:
    """A file of labelled texts, one per line.

    A path is relative to the recipe; `NAME:FILE` is a file of the catalogue. A "labelled" line is the label,
    a space, the text. `text_field` and `label_field` are columns of a "tsv" file, as numbers from 0 or, with
    a `header`, as names; keys of a "jsonl" file; and columns of a "csv" file, whose delimiter and header are
    detected.
    """

    file: str  # the texts with their labels
    format: Literal[
        "labelled", "tsv", "jsonl", "csv"
    ]  # how a line is divided; "labelled": label, space, text
    text_field: str | None = None
    label_field: str | None = None
    header: bool = False  # the first line of a tsv file has the names of its columns

    def __post_init__(self) -> None:
        check_types(self)
        if self.format == "labelled" and (self.text_field or self.label_field):
            raise RecipeError("a line of format 'labelled' has no fields", "the label is its first word")
        if self.header and self.format != "tsv":
            raise RecipeError(f"a file of format {self.format!r} has no header", "only 'tsv' has one")
        for name in ("text_field", "label_field"):
            value = getattr(self, name)
            if self.format == "tsv" and not self.header and value is not None and not value.isdecimal():
                raise RecipeError(
                    f"{name} = {value!r} is not a column of a tsv file without a header",
                    "columns are numbered from 0; header = true reads their names from the first line",
                )

    def of_file(self, file: str) -> "LabelledTable":
        """The settings for another file of the same format, or for a table of its own format and columns."""
        kind = format_by_name(Path(file))
        if kind in (None, self.format):
            return LabelledTable(**{**vars(self), "file": file})
        return LabelledTable(file=file, format=kind)

    def with_columns(self, text: str, label: str) -> "LabelledSettings":
        """The settings with other columns, by their names or numbers."""
        named = self.format == "tsv" and not (text.isdecimal() and label.isdecimal())
        return replace(self, text_field=text, label_field=label, header=named)


class LabelledTable(LabelledSettings):
    """A table that no recipe names: texts without a label are skipped, and counted."""


def open_labelled(
    settings: LabelledSettings, policy: LinePolicy, base: Path, *, classes: bool = False
) -> Corpus:
    """The labelled texts of a file as pairs of text and label; a relative path starts at `base`.

    With `classes` each label is the name of a class: "nan", which means a missing value, and JSON
    numbers that are not integers are malformed. Texts of a `LabelledTable` that have no label are empty.
    """
    path = locate(settings.file, base)

    def rows() -> Iterator[Row]:
        found = _rows(settings, path, classes)
        found = map(_refuse_nan, found) if classes else found
        return map(_unlabelled_is_empty, found) if isinstance(settings, LabelledTable) else found

    first_line = 2 if settings.header else 1
    return Corpus(path.name, rows, policy, [path], settings, first_line=first_line)


def _rows(settings: LabelledSettings, path: Path, classes: bool) -> Iterator[Row]:
    if settings.format == "tsv":
        return _tsv_rows(settings, path)
    if settings.format == "csv":
        return _csv_rows(settings, path, classes)
    if settings.format == "jsonl":
        keys = settings.text_field or "text", settings.label_field or "label"
        return (_json_row(line, *keys, classes=classes) for line in read_lines(path))
    return map(_label_then_text, read_lines(path))


def _labelled(text: str, label: str) -> Row:
    return (text, label) if label.strip() else Problem("malformed", "no label", reason=UNLABELLED)


def _unlabelled_is_empty(row: Row) -> Row:
    if isinstance(row, Problem) and row.reason == UNLABELLED:
        return row._replace(policy="empty")
    return row


def _refuse_nan(row: Row) -> Row:
    """Refuses "nan" as a label, which tables write for missing values."""
    if isinstance(row, Problem) or row[1].strip().lower() not in ("nan", "-nan", "+nan"):
        return row
    message = f"the label is {row[1]!r}, which means a missing label"
    return Problem("malformed", message, reason=UNLABELLED)


def _label_then_text(line: str) -> Row:
    label, _, text = line.partition(" ")
    return _labelled(text, label)


def _tsv_rows(settings: LabelledSettings, path: Path) -> Iterator[Row]:
    """The rows of a TSV file; each must have as many columns as the first line."""
    width, choice = 0, [0, 1]
    for number, line in enumerate(read_lines(path)):
        cells = line.split("\t")
        if number == 0:
            width, choice = len(cells), _column_numbers(settings, cells, path)
            if settings.header:
                continue
        if len(cells) != width:
            yield Problem("malformed", f"{len(cells)} columns, but line 1 has {width}")
        else:
            yield _labelled(cells[choice[0]], cells[choice[1]])


def _csv_rows(settings: LabelledSettings, path: Path, classes: bool) -> Iterator[Row]:
    """The records of a CSV file, each text on one line."""
    table = open_table(path, "csv")
    text, label = table.columns([settings.text_field or "text", settings.label_field or "label"])
    for record in table.records():
        if not table.is_header(record):
            cell = one_line(record.cells[label])
            yield _labelled(one_line(record.cells[text]), cell if classes else table.number(cell))


def _column_numbers(settings: LabelledSettings, first: Sequence[str], path: Path) -> list[int]:
    """The column numbers of text and label."""
    if settings.header:
        names = settings.text_field or "text", settings.label_field or "label"
        for name in names:
            if first.count(name) != 1:
                why = "has several columns" if name in first else "has no column"
                raise DataError(f"{path}:1: the header {why} {name!r}", did_you_mean(name, first))
        return [first.index(name) for name in names]
    columns = [int(settings.text_field or 0), int(settings.label_field or 1)]
    if len(first) <= max(columns):
        raise DataError(
            f"{path}:1: {len(first)} columns, so there is no column {max(columns)}",
            "columns are numbered from 0 and separated by tabs",
        )
    return columns


def _json_row(line: str, text_key: str, label_key: str, *, classes: bool) -> Row:
    try:
        record = parse_record(line)
        text = text_field(record, text_key)
    except ValueError as error:
        return Problem("malformed", str(error))
    label = record.get(label_key)
    if label is None or isinstance(label, dict | list):
        message = f"{label_key!r} is {'not a label' if label_key in record else 'missing'}"
        return Problem("malformed", message, reason=UNLABELLED if label is None else None)
    if isinstance(label, float) and (classes or not math.isfinite(label)):
        allowed = "neither text nor an integer" if classes else "not a finite number"
        return Problem("malformed", f"{label_key!r} is {label}, {allowed}")
    return _labelled(text, label if isinstance(label, str) else json.dumps(label))


def line_location(corpus: Corpus, line: int) -> str:
    """The place of a line of a corpus for messages, "FILE:LINE"."""
    return f"{corpus.files[0] if corpus.files else corpus.name}:{line}"


@dataclass(frozen=True)
class LabelSet:
    """The classes of a task in the order of a model's logits."""

    names: tuple[str, ...]
    numbers: Mapping[str, int]  # label as written in files -> class

    @classmethod
    def of(cls, labels: Iterable[str], names: Mapping[str, str]) -> "LabelSet":
        """The classes of the training labels: integers in numeric order, other labels sorted as text.

        `names` maps labels to the names of their classes; labels of the same name are one class.

        Raises:
            DataError: there are fewer than two classes.
            RecipeError: `names` has a label that does not occur.
        """
        found = set(labels)
        for label in names:
            if label not in found:
                raise RecipeError(
                    f"label_names has {label!r}, which no training text has", did_you_mean(label, found)
                )
        whole = all(re.fullmatch(r"-?\d+", label) for label in found)
        ordered = sorted(found, key=lambda label: (int(label), label)) if whole else sorted(found)
        classes = tuple(dict.fromkeys(names.get(label, label) for label in ordered))
        if len(classes) < 2:
            raise DataError(
                f"all training texts have one label, {classes[0]!r}" if classes else "no text has a label",
                "a classifier needs at least two classes",
            )
        return cls(classes, {label: classes.index(names.get(label, label)) for label in ordered})

    @classmethod
    def of_model(cls, classes: Sequence[str], names: Mapping[str, str]) -> "LabelSet":
        """The classes of a trained model, in its order, with the `names` of its recipe."""
        numbers = {label: number for number, label in enumerate(classes)}
        others = {label: numbers[name] for label, name in names.items() if name in numbers}
        return cls(tuple(classes), {**numbers, **others})

    def number(self, label: str, place: Callable[[], str]) -> int:
        """The class of a label; `place` gives its file and line for messages.

        Raises:
            DataError: the label does not occur in training.
        """
        if label not in self.numbers:
            raise DataError(
                f"{place()}: label {label!r} does not occur in training", did_you_mean(label, self.numbers)
            )
        return self.numbers[label]


def classes_of(corpus: Corpus, pairs: Iterable[Pair], labels: LabelSet) -> list[int]:
    """The class of each text."""
    return [labels.number(pair.target, lambda pair=pair: line_location(corpus, pair.line)) for pair in pairs]


def numeric_labels(corpus: Corpus, pairs: Iterable[Pair]) -> list[float]:
    """The numeric label of each text, for regression.

    Raises:
        DataError: a label is not a finite number.
    """
    values = []
    for pair in pairs:
        try:
            value = float(pair.target)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise DataError(
                f"{line_location(corpus, pair.line)}: {pair.target!r} is not a finite number",
                "correct the file",
            )
        values.append(value)
    return values


def split(groups: Sequence[object], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Splits examples into training and validation indices, with a `share` of each group for validation.

    A group of two or more examples has at least one in each split; a single example goes to training. The
    split depends on the seed and the groups alone.
    """
    members: dict[object, list[int]] = {}
    for number, group in enumerate(groups):
        members.setdefault(group, []).append(number)
    chosen: set[int] = set()
    for place, numbers in enumerate(members.values()):
        count = min(max(1, round(share * len(numbers))), len(numbers) - 1)
        generator = torch.Generator().manual_seed(derive_seed(seed, place))
        order = torch.randperm(len(numbers), generator=generator)
        chosen |= {numbers[i] for i in order[:count].tolist()}
    return [i for i in range(len(groups)) if i not in chosen], sorted(chosen)


def class_weights(
    choice: Literal["none", "balanced"] | Mapping[str, Any], classes: Sequence[int], names: Sequence[str]
) -> tuple[float, ...] | None:
    """The weight of each class in the loss; None if all are equal.

    "balanced": texts / (classes * texts of the class), so that each class has the same total weight.

    Raises:
        RecipeError: the table has an unknown class, lacks one, or has a weight that is not above 0.
    """
    if choice == "none":
        return None
    if isinstance(choice, str):
        counts = Counter(classes)
        return tuple(len(classes) / (len(names) * counts[number]) for number in range(len(names)))
    for name in choice:
        if name not in names:
            raise RecipeError(f"class_weights has {name!r}, which is not a class", did_you_mean(name, names))
    for name in names:
        if name not in choice:
            raise RecipeError(f"class_weights has no weight for {name!r}", "give each class one")
        weight = choice[name]
        if type(weight) not in (int, float) or not 0 < weight < math.inf:
            raise RecipeError(
                f"class_weights: {name!r} has the weight {weight!r}", "a weight is a number above 0"
            )
    return tuple(float(choice[name]) for name in names)
