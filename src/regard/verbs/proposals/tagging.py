"""`regard new` for sentences with a label for each word."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast, get_args

from regard.data.conllu import NO_VALUE, LabelColumn, Sentence, labels_of
from regard.data.word_columns import LABEL_COLUMN, WordFormat, read_words, word_format
from regard.errors import DataError, did_you_mean
from regard.evaluation.entities import are_entity_labels
from regard.verbs.proposals.input_files import InputFiles
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

MIN_TAGGED_SENTENCES = 20
HELD_OUT_SENTENCES_SHARE = 0.05
SEARCHED_COLUMNS: tuple[LabelColumn, ...] = ("upos", "xpos", "deprel", "feats")  # for labels, in this order

# low and high: just below and above the size of UD English EWT's words, in bytes
TAGGING = PublishedRecipe(recipe="ud-pos", low=950_000, high=1_050_000)


def new_tagging(
    files: InputFiles, columns: Sequence[str], location: RecipeLocation, folder: Path
) -> WrittenRecipe:
    """Write the sentences of a file, with some held out, and the recipe of a tagger for them.

    Raises:
        DataError: a line does not follow the format, a word has no label, or there are too few sentences.
    """
    paths = {part: files.path(part) for part, _ in files.parts()}
    formats: dict[str, WordFormat] = {part: word_format(path) or "columns" for part, path in paths.items()}
    sentences = {part: list(read_words(path, formats[part])) for part, path in paths.items()}
    train, path = sentences["train"], paths["train"]
    if len(train) < MIN_TAGGED_SENTENCES:
        raise DataError(
            f"{path}: {len(train)} sentences are too few to learn from",
            f"give {MIN_TAGGED_SENTENCES} or more",
        )
    column = _column(train, path, formats["train"], columns)
    if "valid" not in sentences:
        chosen = held_out(map(_text, train), HELD_OUT_SENTENCES_SHARE)
        sentences["valid"] = [each for each in train if split_digest(_text(each)) in chosen]
        sentences["train"] = [each for each in train if split_digest(_text(each)) not in chosen]
    if not sentences["valid"] or not sentences["train"]:
        raise DataError(f"{path}: all its sentences are the same", "give a file with different sentences")
    names = {}
    for part, each in sentences.items():
        if part != "train" and formats.get(part) == "conllu":
            names[part] = location.relative_path(getattr(files, part)[0])
            continue
        names[part] = location.file(f"{part}.conllu")
        with (folder / f"{part}.conllu").open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(map(str, each))
    words = sum(map(len, sentences["train"]))
    changes = TAGGING.scaled(sum(len(_text(each).encode()) for each in sentences["train"]))
    steps = changes["training.max_steps"].value
    shown = "" if formats["train"] == "columns" else column.upper()  # the file's own column has no name
    about = f"{words:,} words of {path.name} and their {shown} labels".replace("  ", " ")
    labels = {label for each in sentences["train"] for label in each.column(column)}
    if are_entity_labels(labels):
        comment = "selects the best model by its entities, as seqeval and conlleval count them"
        changes["training.best_metric"] = RecipeChange(value="entity_f1", comment=comment)
    return WrittenRecipe(
        text=adapted(TAGGING.text(), head(location.name, about), _data(names, column, shown), changes),
        counts={part: len(each) for part, each in sentences.items()},
        unit="sentences",
        summary=f"{len(labels)} different labels{shown and f' ({shown})'}, the model of"
        f" recipes/{TAGGING.recipe}, {steps:,} updates",
    )


def _text(sentence: Sentence) -> str:
    return " ".join(sentence.forms)


def _column(
    sentences: Iterable[Sentence], path: Path, file_format: WordFormat, wanted: Sequence[str]
) -> LabelColumn:
    """The column of the labels: the wanted one, or the first in which each word has a label."""
    if file_format == "columns":
        return cast(LabelColumn, LABEL_COLUMN)
    if wanted:
        name = wanted[-1].lower()
        if name not in get_args(LabelColumn):
            raise DataError(
                f"CoNLL-U has no label column {wanted[-1]!r}", did_you_mean(name, get_args(LabelColumn))
            )
        for sentence in sentences:
            labels_of(sentence, cast(LabelColumn, name), str(path))
        return cast(LabelColumn, name)
    for column in SEARCHED_COLUMNS:
        labels = {label for sentence in sentences for label in sentence.column(column)}
        if NO_VALUE not in labels and len(labels) > 1:
            return column
    raise DataError(
        f"{path}: no column has a label for each word",
        f"fill one of {', '.join(SEARCHED_COLUMNS)}, or name one: --columns",
    )


def _data(names: Mapping[str, str], column: LabelColumn, shown: str) -> str:
    """The text of the recipe's [data] sections."""
    comment = "upos, xpos, feats, deprel, lemma" if shown else "of CoNLL-U, to which the labels were written"
    sections = [RecipeSection(title="data", settings={"column": (column, comment)})]
    sections += [
        RecipeSection(
            title=f"data.{part}",
            about=PART_COMMENTS[part],
            settings={"file": (names[part], f"CoNLL-U; {RELATIVE_PATHS}")},
        )
        for part in ("train", "valid", "test")
        if part in names
    ]
    return "\n".join(map(str, sections))
