"""The end of a run: the best model is scored on the test data and gets its model card."""

from collections.abc import Mapping
from typing import Any

import torch

from regard import console
from regard.training.collapse import DISTINCT
from regard.verbs.card import model_card
from regard.verbs.initial_model import origin
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.task import Task
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import load_model


def finish(
    source: RecipeFile, task: Task, run: RunFolder, device: torch.device, *, quiet: bool = False
) -> dict[str, float]:
    """Scores on the test data; where there are none, the best validation's. Printed, unless `quiet`."""
    best = load_model(run.path / "best", device)
    scores = task.test(best.model)
    card = model_card(source.recipe, task, best.model, scores, run.metrics(), origin(run))
    (run.path / "best" / "README.md").write_text(card, "utf-8")
    if scores:
        run.append_metrics({"kind": "test", "scores": {score.name: score.value for score in scores}})
        if not quiet:
            console.scores(f"{source.recipe.name}: test", scores)
    found = {score.name: score.value for score in scores} or _of_best(run)
    if not quiet and (verdict := task.verdict(found)):
        console.note(verdict)
    return found


def _of_best(run: RunFolder) -> dict[str, float]:
    """The scores of the best model's validation."""
    folder = run.best()
    step = folder.manifest.get("step") if folder else None
    measured = [record for record in run.metrics() if record.get("step") == step]
    [*_, best_record] = [record for record in measured if record["kind"] in ("validation", "average")]
    return scores_of(best_record)


def scores_of(record: Mapping[str, Any]) -> dict[str, float]:
    """What a validation measured of the model's quality."""
    return {key: value for key, value in record.items() if key not in ("kind", "step", "of", DISTINCT)}
