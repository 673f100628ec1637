"""Texts with labels, of TSV, JSON Lines or lines that begin with the label; classes, splits, weights."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch

from regard.data.corpus import Corpus, LinePolicy, Pair, Problem, Row, locate, read_lines
from regard.data.noise import mixed
from regard.errors import DataError, RecipeError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class LabelledSettings:
    """Where labelled texts stand, one a line.

    A path is relative to the recipe; `NAME:FILE` is a file of the catalogue. A "labelled" line is the label,
    a space, the text. `text_field` and `label_field` are columns of a "tsv" file, counted from 0 or, with
    a `header`, named; and keys of a "jsonl" one.
    """

    file: str
    format: Literal["labelled", "tsv", "jsonl"]
    text_field: str | None = None
    label_field: str | None = None
    header: bool = False

    def __post_init__(self) -> None:
        if self.format == "labelled" and (self.text_field or self.label_field):
            raise RecipeError("a line of format 'labelled' has no fields", "the label is its first word")
        if self.header and self.format != "tsv":
            raise RecipeError(f"a file of format {self.format!r} has no header", "only 'tsv' has one")
        for name in ("text_field", "label_field"):
            value = getattr(self, name)
            if self.format == "tsv" and not self.header and value is not None and not value.isdecimal():
                raise RecipeError(
                    f"{name} = {value!r} is no column of a tsv file without a header",
                    "columns count from 0; header = true reads their names from the first line",
                )


def open_labelled(
    settings: LabelledSettings, policy: LinePolicy, base: Path, *, classes: bool = False
) -> Corpus:
    """The texts of a file, each a `Pair` of text and label; `base` is the folder its path is relative to.

    With `classes` each label names a class: NaN, which stands for no value, and JSON numbers that are not
    whole are malformed.
    """
    path = locate(settings.file, base)

    def rows() -> Iterator[Row]:
        found = _rows(settings, path, classes)
        return map(_class_named, found) if classes else found

    first_line = 2 if settings.header else 1
    return Corpus(path.name, rows, policy, [path], settings, first_line=first_line)


def _rows(settings: LabelledSettings, path: Path, classes: bool) -> Iterator[Row]:
    if settings.format == "tsv":
        return _tsv(settings, path)
    if settings.format == "jsonl":
        keys = settings.text_field or "text", settings.label_field or "label"
        return (_json_line(line, *keys, classes=classes) for line in read_lines(path))
    return map(_label_first, read_lines(path))


def _labelled(text: str, label: str) -> Row:
    return (text, label) if label.strip() else Problem("malformed", "no label")


def _class_named(row: Row) -> Row:
    """The row, whose label must not be what tables write where a value is missing."""
    if isinstance(row, Problem) or row[1].strip().lower() not in ("nan", "-nan", "+nan"):
        return row
    return Problem("malformed", f"the label is {row[1]!r}, which stands for no label")


def _label_first(line: str) -> Row:
    label, _, text = line.partition(" ")
    return _labelled(text, label)


def _tsv(settings: LabelledSettings, path: Path) -> Iterator[Row]:
    """Rows are as wide as the first, which is the header where there is one."""
    width, wanted = 0, [0, 1]
    for number, line in enumerate(read_lines(path)):
        cells = line.split("\t")
        if number == 0:
            width, wanted = len(cells), _columns(settings, cells, path)
            if settings.header:
                continue
        if len(cells) != width:
            yield Problem("malformed", f"{len(cells)} columns, but line 1 has {width}")
        else:
            yield _labelled(cells[wanted[0]], cells[wanted[1]])


def _columns(settings: LabelledSettings, first: Sequence[str], path: Path) -> list[int]:
    """Where text and label stand."""
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
            f"{path}:1: {len(first)} columns, but column {max(columns)} is asked for",
            "columns count from 0 and stand between tabs",
        )
    return columns


def _json_line(line: str, text_key: str, label_key: str, *, classes: bool) -> Row:
    try:
        record = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return Problem("malformed", f"not JSON ({str(error).splitlines()[0]})")
    if not isinstance(record, dict):
        return Problem("malformed", f"a JSON {type(record).__name__}, not an object")
    text, label = record.get(text_key), record.get(label_key)
    if not isinstance(text, str):
        return Problem("malformed", f"{text_key!r} is {'not text' if text_key in record else 'missing'}")
    if label is None or isinstance(label, dict | list):
        return Problem("malformed", f"{label_key!r} is {'no label' if label_key in record else 'missing'}")
    if classes and isinstance(label, float):
        return Problem("malformed", f"{label_key!r} is {label}, neither text nor a whole number")
    return _labelled(text, label if isinstance(label, str) else json.dumps(label))


def _no_number(name: str) -> NoReturn:
    """NaN and Infinity, which Python reads and JSON has not."""
    raise ValueError(f"{name} is no number")


def place_of(corpus: Corpus, line: int) -> str:
    """Where a line of a corpus stands, for messages."""
    return f"{corpus.files[0] if corpus.files else corpus.name}:{line}"


@dataclass(frozen=True)
class LabelSet:
    """The classes of a task in the order of a model's logits, and what files call them."""

    names: tuple[str, ...]
    numbers: Mapping[str, int]  # of each label as it stands in files

    @classmethod
    def of(cls, labels: Iterable[str], names: Mapping[str, str]) -> "LabelSet":
        """Those that occur: numbers in their order, others in the order of their characters.

        `names` says what some of them are called; labels of one name are one class.

        Raises:
            DataError: there are fewer than two classes.
            RecipeError: `names` speaks of a label that does not occur.
        """
        found = set(labels)
        for label in names:
            if label not in found:
                raise RecipeError(
                    f"label_names names {label!r}, which no training text has", did_you_mean(label, found)
                )
        whole = all(re.fullmatch(r"-?\d+", label) for label in found)
        ordered = sorted(found, key=lambda label: (int(label), label)) if whole else sorted(found)
        classes = tuple(dict.fromkeys(names.get(label, label) for label in ordered))
        if len(classes) < 2:
            raise DataError(
                f"all training texts have one label, {classes[0]!r}" if classes else "no text has a label",
                "a classifier needs two classes or more to tell apart",
            )
        return cls(classes, {label: classes.index(names.get(label, label)) for label in ordered})

    @classmethod
    def known(cls, classes: Sequence[str], names: Mapping[str, str]) -> "LabelSet":
        """The classes of a trained model, in its order; `names` as they were when it was trained."""
        numbers = {label: number for number, label in enumerate(classes)}
        others = {label: numbers[name] for label, name in names.items() if name in numbers}
        return cls(tuple(classes), {**numbers, **others})

    def number(self, label: str, place: Callable[[], str]) -> int:
        """The class of a label that stands at `place`.

        Raises:
            DataError: no training text has it.
        """
        if label not in self.numbers:
            raise DataError(
                f"{place()}: label {label!r} was never seen in training", did_you_mean(label, self.numbers)
            )
        return self.numbers[label]


def classes_of(corpus: Corpus, pairs: Iterable[Pair], labels: LabelSet) -> list[int]:
    """The class of each text."""
    return [labels.number(pair.target, lambda pair=pair: place_of(corpus, pair.line)) for pair in pairs]


def values_of(corpus: Corpus, pairs: Iterable[Pair]) -> list[float]:
    """The number of each text.

    Raises:
        DataError: it is none, or not finite.
    """
    values = []
    for pair in pairs:
        try:
            value = float(pair.target)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise DataError(
                f"{place_of(corpus, pair.line)}: {pair.target!r} is no finite number", "mend the file"
            )
        values.append(value)
    return values


def split(groups: Sequence[object], share: float, seed: int) -> tuple[list[int], list[int]]:
    """The numbers of the examples to train on and of those to validate on, a `share` of each group.

    A group of two examples or more gives at least one and keeps at least one; a single one is trained on.
    What goes where is a function of the seed and of the groups alone.
    """
    members: dict[object, list[int]] = {}
    for number, group in enumerate(groups):
        members.setdefault(group, []).append(number)
    chosen: set[int] = set()
    for place, numbers in enumerate(members.values()):
        count = min(max(1, round(share * len(numbers))), len(numbers) - 1)
        generator = torch.Generator().manual_seed(mixed(seed, place))
        order = torch.randperm(len(numbers), generator=generator)
        chosen |= {numbers[i] for i in order[:count].tolist()}
    return [i for i in range(len(groups)) if i not in chosen], sorted(chosen)


def class_weights(
    wanted: Literal["none", "balanced"] | Mapping[str, Any], classes: Sequence[int], names: Sequence[str]
) -> tuple[float, ...] | None:
    """How much each class counts in the loss: None where all count alike.

    "balanced": texts / (classes * texts of the class), so that all classes together count alike.

    Raises:
        RecipeError: a table that names no class, leaves one out, or gives it a weight that is not above 0.
    """
    if wanted == "none":
        return None
    if isinstance(wanted, str):
        counts = Counter(classes)
        return tuple(len(classes) / (len(names) * counts[number]) for number in range(len(names)))
    for name in wanted:
        if name not in names:
            raise RecipeError(f"class_weights names {name!r}, which is no class", did_you_mean(name, names))
    for name in names:
        if name not in wanted:
            raise RecipeError(f"class_weights has no weight for {name!r}", "give each class one")
        weight = wanted[name]
        if type(weight) not in (int, float) or not 0 < weight < math.inf:
            raise RecipeError(f"class_weights gives {name!r} {weight!r}", "a weight is a number above 0")
    return tuple(float(wanted[name]) for name in names)
