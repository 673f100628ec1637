"""`regard new` for texts with a class or a number each."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from regard.counted import counted
from regard.data.column_names import is_number
from regard.data.tables import Table, format_of, one_line, open_table
from regard.errors import DataError, did_you_mean
from regard.verbs.proposals.column_statistics import is_missing
from regard.verbs.proposals.input_files import InputFiles, path_of
from regard.verbs.proposals.known_words import KnownWords, known_words
from regard.verbs.proposals.published import (
    PART_COMMENTS,
    RELATIVE_PATHS,
    PublishedRecipe,
    RecipeChange,
    RecipeSection,
    adapted,
)
from regard.verbs.proposals.recipe_location import RecipeLocation
from regard.verbs.proposals.template import head
from regard.verbs.proposals.written_recipe import WrittenRecipe, held_out, split_digest

MIN_TEXTS = 20  # with fewer there is nothing to hold out and nothing to learn from
MAX_CHARACTERS = 100_000  # of a text
SHOWN_CLASSES = 12  # classes whose numbers of texts are printed
SHOWN_DOUBTS = 5  # groups of labels that are named in a warning
FEW_NUMBERS = 20  # so few different numbers may be classes
COMMON = 0.75  # with a class of a larger share, a model that always predicts it has a high accuracy

# low and high: bytes of the training texts of TREC and of SST-5, on which the recipes were measured
WORDS = PublishedRecipe(recipe="trec", low=240_000, high=800_000)  # tokens are words and punctuation
PIECES = PublishedRecipe(recipe="sst2", low=240_000, high=800_000)  # tokens are pieces of words

HELD_OUT_THEN_LEARNED = "held out from the first run; the second learns them too"

_NOT_A_NUMBER = (
    "give each text a number, name the columns, or use --task classification; a comma is a decimal comma only"
    " in a CSV file with semicolons"
)
LabelledKind = Literal["classification", "regression"]


@dataclass(kw_only=True)
class LabelledTexts:
    """The texts of one part with labels and line numbers, and counts of the lines that were left out."""

    path: Path
    rows: list[tuple[str, str, int]] = field(default_factory=list)  # text, label, line
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def bytes(self) -> int:
        """The bytes of all texts in UTF-8."""
        return sum(len(text.encode()) for text, _, _ in self.rows)


def table_of(file: str) -> Table:
    """The table in a file that the user named."""
    path = path_of(file)
    return open_table(path, format_of(path) or "labelled")


def new_labelled(
    kind: LabelledKind, files: InputFiles, columns: Sequence[str], location: RecipeLocation, folder: Path
) -> WrittenRecipe:
    """Write the texts of a table, with `columns` for text and label, and the recipe for them.

    Raises:
        DataError: labels cannot be learned; the message names file and line.
    """
    parts = {part: _read(part_files, columns, kind) for part, part_files in files.parts()}
    train = parts["train"]
    if len(train.rows) < MIN_TEXTS:
        raise DataError(
            f"{train.path}: {len(train.rows)} texts are too few to learn from "
            f"({sum(train.skipped.values())} lines were left out)",
            f"give {MIN_TEXTS} or more; a usable model needs some hundreds of each class",
        )
    notes = _check_classes(parts) if kind == "classification" else _check_numbers(parts)
    warnings = _overlaps(parts)
    if kind == "classification":
        warnings += [*_conflicts(train), *_doubtful_classes(train)]
    if "valid" not in parts:
        parts = {**parts, **_split(train, kind)}
    for part, texts in parts.items():
        with (folder / f"{part}.tsv").open("w", encoding="utf-8", newline="\n") as file:
            file.write("text\tlabel\n")
            file.writelines(f"{text}\t{label}\n" for text, label, _ in texts.rows)
    texts = ([text for text, _, _ in parts[part].rows] for part in ("train", "valid"))
    words = known_words(*texts) if kind == "classification" else None
    published = WORDS if words and words.suffice else PIECES
    changes = published.scaled(train.bytes) | (_room(words, train) if words and words.suffice else {})
    if files.valid:
        changes["training.refit"] = RecipeChange(value=None)  # the user's validation texts stay unseen
    text, steps = _recipe(published, changes, kind, files, parts, location)
    return WrittenRecipe(
        text=text,
        counts={part: len(texts.rows) for part, texts in parts.items()},
        unit="texts",
        skipped=sum((texts.skipped for texts in parts.values()), Counter()),
        summary=f"{_class_count(kind, train)}the model of recipes/{published.recipe}, {steps:,} updates"
        + ("" if files.valid else "; then as many on all texts"),
        warnings=warnings,
        notes=[*notes, *([words.summary] if words else [])],
    )


def _class_count(kind: LabelledKind, train: LabelledTexts) -> str:
    return "" if kind == "regression" else f"{len({label for _, label, _ in train.rows})} classes, "


def _read(files: Sequence[str], columns: Sequence[str], kind: LabelledKind) -> LabelledTexts:
    table = table_of(files[0])
    indices = table.columns(columns)
    texts = LabelledTexts(path=table.path)
    commas = points = False  # in numbers
    for record in table.records():
        text, label = (one_line(record.cells[index]) for index in indices)
        if table.is_header(record):
            texts.skipped["repeated header"] += 1
        elif not text:
            texts.skipped["empty"] += 1
        elif not label or label.lower() in ("nan", "-nan", "+nan"):
            texts.skipped["without a label"] += 1
        elif len(text) > MAX_CHARACTERS:
            texts.skipped["too long"] += 1
        else:
            if kind == "regression":
                written, label = label, table.number(label)
                commas, points = commas or written != label, points or "." in written
            texts.rows.append((text, label, record.line))
    if commas and points:
        raise DataError(
            f"{table.path}: some numbers have a decimal comma, and some a point",
            "write all of them in one way",
        )
    _leave_out_missing(texts)
    return texts


def _leave_out_missing(texts: LabelledTexts) -> None:
    """Leave out the texts with NA or the like for a label, if all other labels are numbers."""
    rows = [row for row in texts.rows if not is_missing(row[1])]
    if rows and all(is_number(label) for _, label, _ in rows):
        texts.skipped["without a label"] += len(texts.rows) - len(rows)
        texts.rows = rows


def _check_classes(parts: Mapping[str, LabelledTexts]) -> list[str]:
    """Refuse classes that cannot be learned; returns notes about the classes."""
    train = parts["train"]
    counts = Counter(label for _, label, _ in train.rows)
    if len(counts) == 1:
        raise DataError(
            f"{train.path}: all texts have one label, {next(iter(counts))!r}",
            "give texts of two classes or more, or name another column: --columns TEXT,LABEL",
        )
    if len(counts) > len(train.rows) / 2:
        raise DataError(
            f"{train.path}: {len(counts):,} labels for {len(train.rows):,} texts are too many for classes",
            "a class needs several texts; --columns TEXT,LABEL names another column, --task regression is for"
            " numbers",
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
    occur = counted(len(once), "label occurs", "labels occur")
    common = ", ".join(f"{label!r} {count:,}" for label, count in counts.most_common(SHOWN_CLASSES))
    more = f", and {len(counts) - SHOWN_CLASSES} more classes" if len(counts) > SHOWN_CLASSES else ""
    rare = [f"{occur} once, too rarely to be learned: {shown}"] if once else []
    return [*rare, f"texts of each class: {common}{more}"]


def _check_numbers(parts: Mapping[str, LabelledTexts]) -> list[str]:
    """Refuse labels that are not numbers, or all the same; returns a note about few different numbers."""
    for texts in parts.values():
        for _, label, line in texts.rows:
            if not is_number(label):
                raise DataError(
                    f"{texts.path}:{line}: {label!r} is not a number",
                    _NOT_A_NUMBER,
                )
    different = len({float(label) for _, label, _ in parts["train"].rows})
    if different == 1:
        raise DataError(
            f"{parts['train'].path}: all texts have the same number", "give texts with different numbers"
        )
    few = f"there are {different} different numbers; with --task classification each is a class"
    return [few] if different <= FEW_NUMBERS else []


def _overlaps(parts: Mapping[str, LabelledTexts]) -> list[str]:
    """A warning for each held-out part that has texts of the training data."""
    known = {text for text, _, _ in parts["train"].rows}
    found = {part: sum(row[0] in known for row in each.rows) for part, each in parts.items()}
    return [
        f"{count:,} of {len(parts[part].rows):,} texts of {parts[part].path} are training texts, too: its"
        " scores will be too good"
        for part, count in found.items()
        if part != "train" and count
    ]


def _conflicts(train: LabelledTexts) -> list[str]:
    """A warning if texts occur with several labels."""
    labels: dict[str, set[str]] = {}
    for text, label, _ in train.rows:
        labels.setdefault(text, set()).add(label)
    count = sum(len(each) > 1 for each in labels.values())
    some = counted(count, "different text occurs", "different texts occur")
    return [f"{some} with several labels: no model can get all of them right"] if count else []


def _doubtful_classes(train: LabelledTexts) -> list[str]:
    """Warnings of labels that differ in case or spaces alone, and of words for a missing value."""
    counts = Counter(label for _, label, _ in train.rows)
    alike: dict[str, list[str]] = {}
    for label in sorted(counts):
        alike.setdefault("".join(label.casefold().split()), []).append(label)
    several = [
        ", ".join(f"{each!r} {counts[each]:,}" for each in group) for group in alike.values() if group[1:]
    ]
    warnings = []
    if several:
        shown = "; ".join(several[:SHOWN_DOUBTS]) + ("; ..." if len(several) > SHOWN_DOUBTS else "")
        warnings.append(f"labels that differ in case or spaces alone are classes of their own: {shown}")
    if missing := [f"{label!r} {count:,}" for label, count in sorted(counts.items()) if is_missing(label)]:
        shown = ", ".join(missing)
        warnings.append(
            f"{shown}: a class for a word that may mean a missing label; if it does, empty these cells"
        )
    return warnings


def _split(train: LabelledTexts, kind: LabelledKind) -> dict[str, LabelledTexts]:
    """The texts to train on and to validate on: a share of each class, chosen by the text's digest."""
    groups: dict[str, list[str]] = {}
    for text, label, _ in train.rows:
        groups.setdefault(label if kind == "classification" else "", []).append(text)
    chosen = set[int]().union(*(held_out(texts) for texts in groups.values() if len(set(texts)) > 1))
    for texts in groups.values():  # the same text may have been chosen in another class
        if (digests := set(map(split_digest, texts))) <= chosen:
            chosen -= digests
    parts = {"train": LabelledTexts(path=train.path), "valid": LabelledTexts(path=train.path)}
    for row in train.rows:
        parts["valid" if split_digest(row[0]) in chosen else "train"].rows.append(row)
    if not parts["valid"].rows:
        raise DataError(f"{train.path}: all its texts are the same", "give a file with different texts")
    parts["train"].skipped = train.skipped
    return parts


def _room(words: KnownWords, train: LabelledTexts) -> dict[str, RecipeChange]:
    """A larger vocabulary if the recipe's, which is scaled for pieces, has no room for all known words."""
    scaled = WORDS.scaled(train.bytes).get("tokenizer.vocab_size")
    size = scaled.value if scaled else WORDS.table()["tokenizer"]["vocab_size"]
    needed = -(-words.vocab_size // 1000) * 1000
    return {"tokenizer.vocab_size": RecipeChange(value=needed)} if words.vocab_size > size else {}


def _recipe(
    published: PublishedRecipe,
    changes: dict[str, RecipeChange],
    kind: LabelledKind,
    files: InputFiles,
    parts: Mapping[str, LabelledTexts],
    location: RecipeLocation,
) -> tuple[str, int]:
    """The recipe's text, and its number of updates."""
    train = parts["train"]
    if kind == "regression":
        changes |= {
            "task.kind": RecipeChange(value="regression", comment="a number for each text"),
            "training.label_smoothing": RecipeChange(value=0.0, comment="not for numbers"),
            "training.r_drop": RecipeChange(value=None),
            "training.best_metric": RecipeChange(value="mean_absolute_error"),
        }
    elif max(Counter(label for _, label, _ in train.rows).values()) > COMMON * len(train.rows):
        comment = "selects the best model by the mean over classes, since one class is far more common"
        changes["training.best_metric"] = RecipeChange(value="macro_f1", comment=comment)
    labels = "numbers" if kind == "regression" else "classes"
    about = f"{len(train.rows):,} texts of {files.path('train').name} and their {labels}"
    comments = PART_COMMENTS if files.valid else {**PART_COMMENTS, "valid": HELD_OUT_THEN_LEARNED}
    data = "\n".join(str(_section(part, comments, location)) for part in comments if part in parts)
    lines = RecipeSection(
        title="data.lines",
        settings={"max_characters": (MAX_CHARACTERS, "a longer text is left out and counted")},
    )
    steps = changes["training.max_steps"].value
    return adapted(published.text(), head(location.name, about), f"{data}\n{lines}", changes), steps


def _section(part: str, comments: Mapping[str, str], location: RecipeLocation) -> RecipeSection:
    return RecipeSection(
        title=f"data.{part}",
        about=comments[part],
        settings={
            "file": (location.file(f"{part}.tsv"), RELATIVE_PATHS),
            "format": ("tsv", "labelled (label, space, text), tsv, jsonl"),
            "header": (True, "the first line names the columns: text and label"),
        },
    )
