"""A new recipe for texts with a class or a number each."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from regard.data.tables import Table, format_of, is_number, open_table
from regard.errors import DataError, did_you_mean
from regard.verbs.proposals.input_files import InputFiles, found
from regard.verbs.proposals.proposal import WrittenRecipe, digest, held_out
from regard.verbs.proposals.published import Published, RecipeChange, RecipeSection, adapted
from regard.verbs.proposals.recipe_location import RecipeLocation
from regard.verbs.template import head

FEWEST = 20  # texts: with fewer there is nothing to hold out and nothing to learn from
MAX_CHARACTERS = 100_000  # of a text; of a long one its beginning is read
COMMON = 0.75  # a class of more than this share of the texts is what a model can say without reading

# bytes of the training texts of TREC and of SST-5, which the same recipe was measured on
CLASSIFICATION = Published(recipe="sst2", low=240_000, high=800_000)

Kind = Literal["classification", "regression"]


@dataclass(kw_only=True)
class LabelledTexts:
    """The texts of one use, their labels, the lines they stand on, and what was left out."""

    path: Path
    rows: list[tuple[str, str, int]] = field(default_factory=list)  # text, label, line
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def bytes(self) -> int:
        return sum(len(text.encode()) for text, _, _ in self.rows)


def table_of(file: str) -> Table:
    """The table in a file that was named."""
    path = found(file)
    return open_table(path, format_of(path) or "labelled")


def new_labelled(
    kind: Kind, given: InputFiles, columns: Sequence[str], place: RecipeLocation, folder: Path
) -> WrittenRecipe:
    """Write the texts of a table, `columns` of which are the text and its label, and the recipe for them.

    Raises:
        DataError: the labels are of no use, named by file and line.
    """
    parts = {part: _read(files, columns) for part, files in given.parts()}
    train = parts["train"]
    if len(train.rows) < FEWEST:
        raise DataError(
            f"{train.path}: {len(train.rows)} texts are too few to learn from "
            f"({sum(train.skipped.values())} lines were left out)",
            f"give {FEWEST} or more; some hundreds of each class make a usable model",
        )
    notes = _check_classes(parts) if kind == "classification" else _check_numbers(parts)
    if "valid" not in parts:
        parts = {**parts, **_divided(train, kind)}
    for part, texts in parts.items():
        with (folder / f"{part}.tsv").open("w", encoding="utf-8", newline="\n") as file:
            file.write("text\tlabel\n")
            file.writelines(f"{text}\t{label}\n" for text, label, _ in texts.rows)
    text, steps = _recipe(kind, given, parts, place)
    return WrittenRecipe(
        text=text,
        counts={part: len(texts.rows) for part, texts in parts.items()},
        unit="texts",
        skipped=sum((texts.skipped for texts in parts.values()), Counter()),
        summary=f"{_what(kind, train)}the model of recipes/{CLASSIFICATION.recipe}, {steps:,} updates",
        notes=notes,
    )


def _what(kind: Kind, train: LabelledTexts) -> str:
    return "" if kind == "regression" else f"{len({label for _, label, _ in train.rows})} classes, "


def _read(files: Sequence[str], columns: Sequence[str]) -> LabelledTexts:
    table = table_of(files[0])
    places = table.columns(columns)
    texts = LabelledTexts(path=table.path)
    for record in table.records():
        text, label = (_one_line(record.cells[place]) for place in places)
        if not text:
            texts.skipped["empty"] += 1
        elif not label or label.lower() in ("nan", "-nan", "+nan"):
            texts.skipped["without a label"] += 1
        elif len(text) > MAX_CHARACTERS:
            texts.skipped["too long"] += 1
        else:
            texts.rows.append((text, label, record.line))
    return texts


def _one_line(cell: str | None) -> str:
    """A text on one line, without tabs, which a TSV file cannot hold, and without what is no character."""
    return re.sub("[\t\n\r\v\f\0\ud800-\udfff]+", " ", cell or "").strip()


def _check_classes(parts: Mapping[str, LabelledTexts]) -> list[str]:
    """Refuse classes that cannot be learned; what is odd about the others, in words."""
    train = parts["train"]
    counts = Counter(label for _, label, _ in train.rows)
    if len(counts) == 1:
        raise DataError(
            f"{train.path}: all texts have one label, {next(iter(counts))!r}",
            "give texts of two classes or more, or name the columns: --columns TEXT,LABEL",
        )
    if len(counts) > len(train.rows) / 2:
        raise DataError(
            f"{train.path}: {len(counts):,} labels for {len(train.rows):,} texts are no classes",
            "name the columns: --columns TEXT,LABEL; for numbers --task regression",
        )
    for part, texts in parts.items():
        for _, label, line in texts.rows if part != "train" else ():
            if label not in counts:
                raise DataError(
                    f"{texts.path}:{line}: no training text has the label {label!r}",
                    did_you_mean(label, counts),
                )
    once = sorted(label for label, count in counts.items() if count == 1)
    shown = ", ".join(map(repr, once[:5])) + (", ..." if len(once) > 5 else "")
    plural = "labels occur" if len(once) > 1 else "label occurs"
    return [f"{len(once)} {plural} once, too seldom to be learned: {shown}"] if once else []


def _check_numbers(parts: Mapping[str, LabelledTexts]) -> list[str]:
    for texts in parts.values():
        for _, label, line in texts.rows:
            if not is_number(label):
                raise DataError(
                    f"{texts.path}:{line}: {label!r} is no number",
                    "give each text a number, name the columns, or take --task classification",
                )
    if len({float(label) for _, label, _ in parts["train"].rows}) == 1:
        raise DataError(
            f"{parts['train'].path}: all texts have one number", "there is nothing to learn from them"
        )
    return []


def _divided(train: LabelledTexts, kind: Kind) -> dict[str, LabelledTexts]:
    """The texts to train on and those to validate on: a share of each class, told by the text alone."""
    groups: dict[str, list[str]] = {}
    for text, label, _ in train.rows:
        groups.setdefault(label if kind == "classification" else "", []).append(text)
    taken = set[int]().union(*(held_out(texts) for texts in groups.values() if len(set(texts)) > 1))
    for texts in groups.values():  # a text may have been taken as one of another class
        if (digests := set(map(digest, texts))) <= taken:
            taken -= digests
    parts = {"train": LabelledTexts(path=train.path), "valid": LabelledTexts(path=train.path)}
    for row in train.rows:
        parts["valid" if digest(row[0]) in taken else "train"].rows.append(row)
    if not parts["valid"].rows:
        raise DataError(f"{train.path}: all its texts are the same", "give a file with different texts")
    parts["train"].skipped = train.skipped
    return parts


def _recipe(
    kind: Kind, given: InputFiles, parts: Mapping[str, LabelledTexts], place: RecipeLocation
) -> tuple[str, int]:
    """The recipe's text, and how many updates it makes."""
    train = parts["train"]
    changes = CLASSIFICATION.scaled(train.bytes)
    if kind == "regression":
        changes |= {
            "task.kind": RecipeChange(value="regression", comment="a number for each text"),
            "training.label_smoothing": RecipeChange(value=0.0, comment="numbers have none"),
            "training.best_metric": RecipeChange(value="mean_absolute_error"),
        }
    elif max(Counter(label for _, label, _ in train.rows).values()) > COMMON * len(train.rows):
        words = "the mean over classes keeps the best model, since one class is far more common"
        changes["training.best_metric"] = RecipeChange(value="macro_f1", comment=words)
    what = "numbers" if kind == "regression" else "classes"
    about = f"{len(train.rows):,} texts of {found(given.train[0]).name} and their {what}"
    data = "\n".join(str(_section(part, place)) for part in ("train", "valid", "test") if part in parts)
    lines = RecipeSection(
        title="data.lines",
        settings={"max_characters": (MAX_CHARACTERS, "a longer text is left out and counted")},
    )
    published = CLASSIFICATION.text()
    steps = changes["training.max_steps"].value
    return adapted(published, head(place.name, about), f"{data}\n{lines}", changes), steps


ABOUT = {
    "train": "",
    "valid": "chooses the best model; never trained on",
    "test": "scored once, at the end",
}


def _section(part: str, place: RecipeLocation) -> RecipeSection:
    return RecipeSection(
        title=f"data.{part}",
        about=ABOUT[part],
        settings={
            "file": (place.file(f"{part}.tsv"), "paths begin at this recipe"),
            "format": ("tsv", "labelled (label, space, text), tsv, jsonl"),
            "header": (True, "the first line names the columns: text and label"),
        },
    )
