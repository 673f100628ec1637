"""The factor of `kind = "noam"` where a recipe gives none: 1, but 0.001 in runs from before it was 1."""

from regard.training.schedule import FORMER_FACTOR, PAPER_FACTOR, former_factor_note
from regard.verbs.shared.run_recipe import RATE, recorded, records_no_factor
from regard.verbs.shared.settings import with_overrides
from regard.verbs.tasks.recipe import RecipeFile
from regard.weights.checkpoint import RESOLVED, RunFolder


def with_factor(run: RunFolder, source: RecipeFile) -> tuple[RecipeFile, str | None]:
    """A recipe with the factor that its run has, and a note if it is not that of a new run.

    A new run records its factor too, so that it keeps it whatever becomes of the default.
    """
    schedule = source.recipe.training.schedule
    if schedule.kind != "noam":
        return source, None
    has_former = is_unrecorded = False
    if (run.path / RESOLVED).is_file():
        table = recorded(run.path)["recipe"]
        own = table.get("training", {}).get("schedule", {})
        is_unrecorded = records_no_factor(run.path)
        has_former = own.get("kind") == "noam" and own.get("learning_rate") == FORMER_FACTOR
    note = former_factor_note(RATE, "its recipe does")
    if schedule.learning_rate is not None:
        return source, note if is_unrecorded and schedule.learning_rate == FORMER_FACTOR else None
    factor = FORMER_FACTOR if has_former else PAPER_FACTOR
    return with_overrides(source, [f"{RATE}={factor}"]), note if has_former else None
