"""New: files become a commented recipe for their task, with lines to validate on held out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.verbs.arguments import checked
from regard.verbs.proposals.budget import Budget
from regard.verbs.proposals.input_files import Files, InputFiles, given_files
from regard.verbs.proposals.labelled import new_labelled
from regard.verbs.proposals.language_model import new_language_model
from regard.verbs.proposals.proposal import WrittenRecipe
from regard.verbs.proposals.recipe_location import RecipeLocation, location_for
from regard.verbs.proposals.tagging import new_tagging
from regard.verbs.proposals.task_detection import DetectedTask, TaskName, detected_task
from regard.verbs.proposals.translation import new_translation


@dataclass(frozen=True, kw_only=True)
class NewRecipe:
    """What was written.

    Attributes:
        recipe, data: the recipe, and the folder of its data.
        task, reading: what it is for, and in words how that was told from the files.
        train, valid, test: how many examples there are for each; `unit`: what they are.
        skipped: how many were left out, by the reason.
        summary: the model and how long it trains, in words.
        warnings: what looks wrong in the data, a line each; `notes`: what else should be known.
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
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@checked
def new(
    source: str | Path,
    target: str | Path | None = None,
    *,
    task: str | None = None,
    valid: Files = (),
    test: Files = (),
    columns: Sequence[str] = (),
    minutes: float | None = None,
    cores: int | None = None,
    out: str | Path | None = None,
) -> NewRecipe:
    """Write a recipe for a corpus, and beside it the lines to train on and those held out.

    The corpus is two aligned files, or one file: a table (CSV, TSV, JSON Lines, or lines that begin with a
    label), words in columns (CoNLL-U, or a word and its label a line), or running text. All may be gzipped.
    Which lines are held out is told by the SHA-256 of the source line alone: the same ones each time,
    and a sentence that stands twice in the corpus is never on both sides. What is proposed was measured:
    docs/recipes-by-size.md. For a translation the speed of this machine is measured on the corpus for some
    seconds, so that the run ends in the time that there is.

    Args:
        source: a file of sources, or the one file of the corpus; plain or gzipped.
        target: of two aligned files the other one.
        task: "translation", "classification", "regression", "tagging" or "language_model"; as the files tell
            where it is not given.
        valid: files to validate on, one or two; then no line is held out.
        test: files to test on, one or two.
        columns: names or numbers (from 0) of the columns of a table: source and target, or text and label.
        minutes: that a translation may train; an hour without.
        cores: CPU cores that it may use; all without.
        out: the recipe to write, or the folder to write it in (one that is there, or that ends with a slash).

    Raises:
        DataError: a file cannot be read, is not of the task, or holds too little.
        RecipeError: the recipe is there already, or there is no such task.
        UserError: there are not as many cores.
    """
    given = given_files([source] if target is None else [source, target], valid, test)
    found = detected_task(given, task, columns)
    budget = Budget.of(minutes, cores, found.task)
    place = location_for(out, given.train)
    written: list[WrittenRecipe] = []

    def fill(folder: Path) -> str:
        written.append(WRITERS[found.task](given, found, budget, place, folder))
        return written[0].text

    place.write(fill)
    [made] = written
    return NewRecipe(
        recipe=place.recipe,
        data=place.data,
        task=found.task,
        reading=found.reading,
        train=made.counts["train"],
        valid=made.counts["valid"],
        test=made.counts.get("test", 0),
        unit=made.unit,
        skipped={reason: count for reason, count in made.skipped.items() if count},
        summary=made.summary,
        warnings=tuple(made.warnings),
        notes=tuple(made.notes),
    )


Writer = Callable[[InputFiles, DetectedTask, Budget, RecipeLocation, Path], WrittenRecipe]

WRITERS: dict[TaskName, Writer] = {
    "translation": lambda given, found, budget, *where: new_translation(given, found.columns, budget, *where),
    "classification": lambda given, found, _, *where: new_labelled(
        "classification", given, found.columns, *where
    ),
    "regression": lambda given, found, _, *where: new_labelled("regression", given, found.columns, *where),
    "tagging": lambda given, found, _, *where: new_tagging(given, found.columns, *where),
    "language_model": lambda given, found, _, *where: new_language_model(given, found.columns, *where),
}
