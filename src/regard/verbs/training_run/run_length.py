"""Resuming a run that becomes longer or shorter (`training.max_steps`)."""

from regard.errors import FolderError
from regard.verbs.shared.settings import load_run, with_overrides
from regard.verbs.tasks.recipe import RecipeFile
from regard.weights.checkpoint import RESOLVED, RunFolder

LENGTH = "length"  # the kind of the records of `metrics.jsonl` that give a run another length


def with_own_length(run: RunFolder, source: RecipeFile) -> tuple[RecipeFile, str | None]:
    """A recipe with the length of its run, if it has a length that the run had before; and a note.

    So the command that began a run resumes it, too, after another one has made it longer.
    """
    if not (run.path / RESOLVED).is_file():
        return source, None
    former = {record["before"] for record in run.metrics() if record["kind"] == LENGTH}
    given, own = source.recipe.training.max_steps, load_run(run.path).recipe.training.max_steps
    if given == own or given not in former:
        return source, None
    return (
        with_overrides(source, [f"training.max_steps={own}"]),
        f"the run keeps its {own:,} updates, which have replaced the {given:,} of the recipe;"
        " --set training.max_steps=N gives it another length",
    )


def change_length(run: RunFolder, source: RecipeFile) -> str | None:
    """Give the run the length of `source` and record it; returns a note, or None if the length is the same.

    Training resumes from the last checkpoint with the learning rates of the new length.

    Raises:
        FolderError: the run has more updates already.
    """
    before, after = load_run(run.path).recipe.training.max_steps, source.recipe.training.max_steps
    if before == after:
        return None
    checkpoint = run.latest()
    step = checkpoint.step if checkpoint else 0
    if step > after:
        raise FolderError(
            f"{run.path} is at step {step:,} of {before:,}, beyond training.max_steps = {after}",
            f"resume it with `regard train {run.path}`, give {step} or more, or choose another --out",
        )
    record = {"kind": LENGTH, "step": step, "before": before, "max_steps": after}
    if record not in run.metrics():
        run.append_metrics(record)
    if not step:
        return f"the run has {after:,} updates now, not {before:,}"
    return (
        f"the run has {after:,} updates now, not {before:,}: from step {step + 1:,} on the learning rate is"
        " that of the new length, so the weights will differ from those of a run that had it from the start"
    )
