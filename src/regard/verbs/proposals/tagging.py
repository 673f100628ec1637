"""A new recipe for sentences whose words have a label each."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast, get_args

from regard.data.conllu import NO_VALUE, Column, Sentence, labels_of
from regard.data.word_columns import LABEL_COLUMN, WordFormat, read_words, word_format
from regard.errors import DataError, did_you_mean
from regard.verbs.proposals.input_files import InputFiles, found
from regard.verbs.proposals.proposal import WrittenRecipe, digest, held_out
from regard.verbs.proposals.published import Published, RecipeSection, adapted
from regard.verbs.proposals.recipe_location import RecipeLocation
from regard.verbs.template import head

FEWEST = 20  # sentences
SHARE = 0.05  # of the sentences, held out
COLUMNS: tuple[Column, ...] = (
    "upos",
    "xpos",
    "deprel",
    "feats",
)  # in the order in which labels are looked for

TAGGING = Published(recipe="ud-pos", low=950_000, high=1_050_000)  # bytes of the words of UD English EWT


def new_tagging(
    given: InputFiles, columns: Sequence[str], place: RecipeLocation, folder: Path
) -> WrittenRecipe:
    """Write the sentences of a file, some held out, and the recipe for the labels of their words.

    Raises:
        DataError: a line breaks the format, a word has no label, or there are too few sentences.
    """
    formats: dict[str, WordFormat] = {part: _format(found(files[0])) for part, files in given.parts()}
    sentences = {part: list(read_words(found(files[0]), formats[part])) for part, files in given.parts()}
    train, path = sentences["train"], given.path("train")
    if len(train) < FEWEST:
        raise DataError(f"{path}: {len(train)} sentences are too few to learn from", f"give {FEWEST} or more")
    column = _column(train, path, formats["train"], columns)
    if "valid" not in sentences:
        taken = held_out(map(_text, train), SHARE)
        sentences["valid"] = [each for each in train if digest(_text(each)) in taken]
        sentences["train"] = [each for each in train if digest(_text(each)) not in taken]
    if not sentences["valid"] or not sentences["train"]:
        raise DataError(f"{path}: all its sentences are the same", "give a file with different sentences")
    files = {}
    for part, each in sentences.items():
        if part != "train" and formats.get(part) == "conllu":
            files[part] = place.path_of(getattr(given, part)[0])
            continue
        files[part] = place.file(f"{part}.conllu")
        with (folder / f"{part}.conllu").open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(map(str, each))
    words = sum(map(len, sentences["train"]))
    changes = TAGGING.scaled(sum(len(_text(each).encode()) for each in sentences["train"]))
    steps = changes["training.max_steps"].value
    about = f"{words:,} words of {path.name} and their {column.upper()}"
    labels = {label for each in sentences["train"] for label in each.column(column)}
    return WrittenRecipe(
        text=adapted(TAGGING.text(), head(place.name, about), _data(files, column), changes),
        counts={part: len(each) for part, each in sentences.items()},
        unit="sentences",
        summary=f"{len(labels)} {column.upper()}, the model of recipes/{TAGGING.recipe}, {steps:,} updates",
    )


def _format(path: Path) -> WordFormat:
    """How words stand in a file that must hold some."""
    return word_format(path) or "columns"


def _text(sentence: Sentence) -> str:
    return " ".join(sentence.forms)


def _column(sentences: Iterable[Sentence], path: Path, kind: WordFormat, wanted: Sequence[str]) -> Column:
    """Where the labels stand: the column that is asked for, or else the first in which each word has one."""
    if kind == "columns":
        return cast(Column, LABEL_COLUMN)
    if wanted:
        name = wanted[-1].lower()
        if name not in get_args(Column):
            raise DataError(
                f"CoNLL-U has no column of labels {wanted[-1]!r}", did_you_mean(name, get_args(Column))
            )
        for sentence in sentences:
            labels_of(sentence, cast(Column, name), str(path))
        return cast(Column, name)
    for column in COLUMNS:
        labels = {label for sentence in sentences for label in sentence.column(column)}
        if NO_VALUE not in labels and len(labels) > 1:
            return column
    raise DataError(
        f"{path}: no column has a label for each word",
        f"fill one of {', '.join(COLUMNS)}, or name one: --columns",
    )


def _data(files: dict[str, str], column: Column) -> str:
    about = {"valid": "chooses the best model; never trained on", "test": "scored once, at the end"}
    sections = [
        RecipeSection(title="data", settings={"column": (column, "upos, xpos, feats, deprel, lemma")})
    ]
    sections += [
        RecipeSection(
            title=f"data.{part}",
            about=about.get(part, ""),
            settings={"file": (files[part], "CoNLL-U; paths begin at this recipe")},
        )
        for part in ("train", "valid", "test")
        if part in files
    ]
    return "\n".join(map(str, sections))
