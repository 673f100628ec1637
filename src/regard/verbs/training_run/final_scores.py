"""The end of a run: score the best model on the test data, and write its model card."""

from collections.abc import Mapping
from typing import Any

import torch

from regard import console
from regard.training.collapse import DISTINCT
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.task import Task
from regard.verbs.training_run.initial_model import origin
from regard.verbs.training_run.model_card import model_card
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import load_model


def finish(
    source: RecipeFile, task: Task, run: RunFolder, device: torch.device, *, quiet: bool = False
) -> dict[str, float]:
    """Score the best model, write its model card, and print the scores unless `quiet`.

    Returns:
        The test scores, or the validation scores if there are no test data.
    """
    best = load_model(run.path / "best", device)
    scores = task.test(best.model)
    card = model_card(source.recipe, task, best.model, scores, run.metrics(), origin(run))
    (run.path / "best" / "README.md").write_text(card, "utf-8")
    if scores:
        run.append_metrics({"kind": "test", "scores": {score.name: score.value for score in scores}})
        if not quiet:
            console.scores(f"{source.recipe.name}: test", scores)
    values = {score.name: score.value for score in scores} or _best_validation(run)
    if not quiet and (verdict := task.verdict(values)):
        console.note(verdict)
    return values


def _best_validation(run: RunFolder) -> dict[str, float]:
    """The validation scores of the best model."""
    folder = run.best()
    step = folder.manifest.get("step") if folder else None
    records = [record for record in run.metrics() if record.get("step") == step]
    [*_, best_record] = [record for record in records if record["kind"] in ("validation", "average")]
    return scores_of(best_record)


def scores_of(record: Mapping[str, Any]) -> dict[str, float]:
    """The scores in a record of `metrics.jsonl`, without its other fields."""
    return {key: value for key, value in record.items() if key not in ("kind", "step", "of", DISTINCT)}
