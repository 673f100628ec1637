"""The end of a run: score the best model on the test data, and write its model card."""

from collections.abc import Mapping
from typing import Any

import torch

from regard import console
from regard.distributed.distributed_model import DistributedModel
from regard.errors import FolderError
from regard.evaluation.score import Score
from regard.models.build import count_parameters
from regard.training.collapse import DISTINCT
from regard.training.snapshot import WEIGHTS
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.task import Task
from regard.verbs.training_run.initial_model import origin
from regard.verbs.training_run.model_card import model_card
from regard.verbs.training_run.recorded_recipe import renew_decoding
from regard.weights.checkpoint import RunFolder
from regard.weights.folder import CARD
from regard.weights.model_folder import load_model
from regard.weights.tensors import restore_model

# of a record: "of" lists the averaged steps; DISTINCT is a sign of collapse, not of quality
NOT_SCORES = ("kind", "step", "of", DISTINCT)


def finish(
    recipe_file: RecipeFile,
    task: Task,
    run: RunFolder,
    distributed: DistributedModel,
    device: torch.device,
    *,
    quiet: bool = False,
) -> dict[str, float]:
    """Score the best model and write its model card; test scores are added to `metrics.jsonl`.

    Unless `quiet`, the scores and what the task says of them are printed. All processes call this. If the
    model is sharded, all read their rows of the best model, in place of their weights, and send them to the
    first.

    Returns:
        The test scores, or the validation scores if there are no test data; in the first process.
    """
    if distributed.is_sharded:
        model = distributed.model
        scores = _sharded_scores(task, run, distributed)
    else:
        model = load_model(run.path / "best", device).model if distributed.group.is_first else None
        scores = task.test(model) if model else None
    if model is None or scores is None:
        return {}
    renew_decoding(run, recipe_file, task.files)
    card = model_card(recipe_file.recipe, task, count_parameters(model), scores, run.metrics(), origin(run))
    (run.path / "best" / CARD).write_text(card, "utf-8")
    if scores:
        run.append_metrics({"kind": "test", "scores": {score.name: score.value for score in scores}})
        if not quiet:
            console.scores(f"{recipe_file.recipe.name}: test", scores)
    values = {score.name: score.value for score in scores}
    if not values and (task.has_validation or recipe_file.recipe.training.refit):
        values = best_validation(run)
    if not quiet and (verdict := task.verdict(values)):
        console.note(verdict)
    return values


def _sharded_scores(task: Task, run: RunFolder, distributed: DistributedModel) -> list[Score] | None:
    """The test scores of the best model, in the first process; None in the others."""
    best = run.best()
    assert best is not None
    restore_model(distributed.model, distributed.load(best.open_tensors(WEIGHTS)))
    return distributed.on_first(lambda model: task.test(model.eval()))


def best_validation(run: RunFolder) -> dict[str, float]:
    """The validation scores of the best model, which may be a mean of the last checkpoints."""
    folder = run.best(())  # its manifest alone: reading the weights would take long
    manifest = folder.manifest if folder else {}
    wanted = "average" if manifest.get("is_average") else "validation", manifest.get("step")
    for record in reversed(run.metrics()):
        if (record["kind"], record.get("step")) == wanted:
            return scores_of(record)
    raise FolderError(
        f"{run.path / 'metrics.jsonl'} has no {wanted[0]} record of step {wanted[1]}, that of the best model",
        "`regard evaluate` scores the best model again",
    )


def scores_of(record: Mapping[str, Any]) -> dict[str, float]:
    """The scores in a record of `metrics.jsonl`, without its other fields."""
    return {key: value for key, value in record.items() if key not in NOT_SCORES}
