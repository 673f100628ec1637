"""New: write a commented recipe for text or image files, and hold out examples to validate on."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.errors import RecipeError
from regard.verbs.proposals.budget import Budget
from regard.verbs.proposals.expressible import fitted_to, refuse_targets
from regard.verbs.proposals.fine_tuning import StartingModel
from regard.verbs.proposals.images import new_images
from regard.verbs.proposals.input_files import InputFiles, Paths, by_part_folders, input_files
from regard.verbs.proposals.labelled import new_labelled
from regard.verbs.proposals.language_model import new_language_model
from regard.verbs.proposals.recipe_location import RecipeLocation, location_for
from regard.verbs.proposals.tagging import new_tagging
from regard.verbs.proposals.task_detection import DetectedTask, TaskName, detect_task
from regard.verbs.proposals.translation import new_translation
from regard.verbs.proposals.written_recipe import WrittenRecipe
from regard.verbs.shared.arguments import checked


@dataclass(frozen=True, kw_only=True)
class NewRecipe:
    """The recipe and data that were written.

    Attributes:
        recipe, data: the recipe file, and the folder of its data.
        task, reading: the task, and how the files were read, in words.
        train, valid, test: the number of examples of each part; `unit`: what they are ("texts").
        skipped: the number of lines that were left out, by reason.
        summary: the model and its training time, in words.
        holds_out: True if the validation examples were held out of those to train on.
        warnings: problems of the data, a line each; `notes`: other remarks.
    """

    recipe: Path
    data: Path
    task: TaskName
    reading: str
    train: int
    valid: int
    test: int
    unit: str
    skipped: dict[str, int]
    summary: str
    holds_out: bool = True
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, location: RecipeLocation, detected: DetectedTask, written: WrittenRecipe, *, holds_out: bool
    ) -> "NewRecipe":
        """What was written where."""
        return cls(
            recipe=location.recipe,
            data=location.data,
            task=detected.task,
            reading=detected.reading,
            train=written.counts["train"],
            valid=written.counts["valid"],
            test=written.counts.get("test", 0),
            unit=written.unit,
            skipped={reason: count for reason, count in written.skipped.items() if count},
            summary=written.summary,
            holds_out=holds_out,
            warnings=tuple(written.warnings),
            notes=tuple(written.notes),
        )


@checked
def new(
    source: str | Path,
    target: str | Path | None = None,
    *,
    task: str | None = None,
    valid: Paths = (),
    test: Paths = (),
    columns: Sequence[str | int] = (),
    minutes: float | None = None,
    cores: int | None = None,
    init: str | Path | None = None,
    targets: Sequence[str] = (),
    clean: bool = False,
    out: str | Path | None = None,
) -> NewRecipe:
    """Write a recipe for a corpus, and a folder with the lines to train on and the held-out lines.

    The corpus is two aligned files, or one file: a table (CSV, TSV, JSON Lines, or lines that begin with a
    label), words in columns (CoNLL-U, or a word and its label per line), or running text, which may also be a
    folder of .txt files. All may be gzipped.
    Images are a folder with a folder for each class, or a table of paths and labels.
    The SHA-256 of the source line alone decides which lines are held out: they are the same each time, and a
    sentence that occurs twice is never on both sides. The proposed settings were measured
    (docs/recipes-by-size.md). For a translation and for images the training speed of this machine is measured
    for some seconds, so that the run fits the time.

    Args:
        source: the file of sources, or the only file of the corpus; plain or gzipped. For images a folder, or
            a table of paths and labels; for texts also a folder of .txt files.
        target: the file of targets, if there are two aligned files.
        task: "translation", "classification", "regression", "tagging", "language_model" or "images"; None
            detects it.
        valid: one or two files to validate on; then no line is held out.
        test: one or two files to test on.
        columns: names or numbers (from 0) of the columns of a table: source and target, or text and label, or
            image and label.
        minutes: the training time of a translation or of an image classifier; None is an hour.
        cores: CPU cores for the training; None is all.
        init: a trained translation model to fine-tune: its folder, or "en-de", the included one.
        targets: targets of `regard export`, such as "ctranslate2", which the model must fit: settings that
            one of them cannot express are replaced.
        clean: leave out the pairs of a translation that look like mistakes; problems.tsv in the data folder
            lists them, and does so without `clean`, too. Repeated pairs are left out too, and those with a
            source of `valid` or `test`.
        out: the recipe to write, or the folder to write it in (an existing one, or one with a slash at the
            end).

    Raises:
        DataError: a file cannot be read, does not fit the task, or has too few examples.
        RecipeError: the recipe exists already, or the task is unknown.
        UserError: the machine has fewer cores; or a target has no such models.
        FolderError: `init` names no translation model.
    """
    named = input_files([source] if target is None else [source, target], valid, test)
    files = by_part_folders(named)
    detected = detect_task(files, task, [str(column) for column in columns])
    budget = Budget.of(minutes, cores, detected.task)
    refuse_targets(targets, detected.task)
    if clean and detected.task != "translation":
        raise RecipeError(
            f"clean is for the pairs of a translation, and the task of these files is {detected.task}",
            "leave it out",
        )
    start = _starting_model(init, detected.task, targets)
    location = location_for(out, named.train)
    recipes: list[WrittenRecipe] = []

    def fill(folder: Path) -> str:
        recipe = _written(files, detected, budget, start, location, folder, clean=clean)
        if targets:
            fitted = fitted_to(recipe.text, detected.task, targets)
            recipe = replace(recipe, text=fitted.text, notes=[*recipe.notes, *fitted.notes])
        recipes.append(recipe)
        return recipe.text

    location.write(fill)
    [written] = recipes
    return NewRecipe.of(location, detected, written, holds_out=not files.valid)


def _starting_model(init: str | Path | None, task: TaskName, targets: Sequence[str]) -> StartingModel | None:
    if init is None:
        return None
    if task != "translation":
        raise RecipeError(
            f"init is for translations, not for {task}",
            f"leave it out, and write init = {json.dumps(str(init))} into the recipe in place of all other"
            " settings of [model]",
        )
    if targets:
        raise RecipeError(
            f"a trained model's settings cannot be changed for {', '.join(targets)}",
            "leave --for out; `regard export` says whether it can leave",
        )
    return StartingModel.of(init)


def _written(
    files: InputFiles,
    detected: DetectedTask,
    budget: Budget,
    start: StartingModel | None,
    location: RecipeLocation,
    folder: Path,
    *,
    clean: bool,
) -> WrittenRecipe:
    """The recipe of the task; its data are written into `folder`."""
    columns = detected.columns
    match detected.task:
        case "translation":
            return new_translation(files, columns, budget, start, location, folder, clean=clean)
        case "classification" | "regression":
            return new_labelled(detected.task, files, columns, location, folder)
        case "images":
            return new_images(files, columns, budget, location, folder)
        case "tagging":
            return new_tagging(files, columns, location, folder)
        case "language_model":
            return new_language_model(files, columns, location, folder)
