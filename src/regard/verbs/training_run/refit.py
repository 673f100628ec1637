"""The second run of `training.refit`: the same training again, on the validation examples too.

The first run is validated, so its scores say how good such a model is. The second learns all examples, and
gives the model of the run. It is a run of its own in RUN/refit, whose model then replaces RUN/best.
"""

import shlex
from pathlib import Path

from regard.errors import FolderError, RunError, Stopped
from regard.verbs.shared.run_recipe import RECIPE
from regard.verbs.shared.settings import with_overrides
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.training_run.product_choice import PRODUCTS
from regard.verbs.training_run.thread_choice import THREADS
from regard.weights.checkpoint import REFIT, RESOLVED, RunFolder


def refit_recipe(source: RecipeFile) -> RecipeFile:
    """The recipe of the second run: all examples are trained on, and nothing is validated."""
    return with_overrides(source, ["data.train_on_valid=true", "training.refit=false"])


def copy_measured(run: RunFolder, second: RunFolder) -> None:
    """Give the second run the threads and products of the first, where they were measured."""
    for name in (THREADS, PRODUCTS):
        measured, copied = run.path / name, second.path / name
        if measured.is_file() and not copied.is_file():
            second.write_text(name, measured.read_text("utf-8"))


def publish(run: RunFolder, second: RunFolder) -> None:
    """Replace RUN/best by the model of the second run, with the recipe of the run.

    The step of the best validation stays in its manifest: its validation scores are those of the first run.
    """
    validated, model = run.best((RECIPE,)), second.best()
    if validated is None or model is None:
        raise AssertionError("both runs are finished, so both have a model")
    run.write_best(
        {**{name: model.read_bytes(name) for name in model.names}, RECIPE: validated.read_bytes(RECIPE)},
        step=validated.manifest["step"],
        is_average=False,
        learned_validation=True,
    )


def refuse_collapsed(run: RunFolder, is_collapsed: bool) -> None:
    """Raise a RunError if the second run has collapsed after its last retry; RUN/best stays as it is."""
    if is_collapsed:
        raise RunError(
            f"the second run has collapsed; {run.path / 'best'} is the model of the first",
            "lower training.schedule.learning_rate, or train without it: --set training.refit=false",
        )


def refuse_second_run(path: Path) -> None:
    """Raise a FolderError if `path` is the second run of another folder, which alone resumes both."""
    if path.name == REFIT and (path.parent / RESOLVED).is_file():
        raise FolderError(
            f"{path} is the second run of {path.parent}",
            f"resume both with `regard train {shlex.quote(str(path.parent))}`",
        )


def stopped_in_refit(stopped: Stopped, run: RunFolder) -> Stopped:
    """The message of a second run that was stopped: the first run's folder resumes both."""
    return Stopped(
        stopped.exit_code - 128,
        f"{stopped.message} (of the second run, on all examples)",
        f"continue with `regard train {shlex.quote(str(run.path))}`",
    )
