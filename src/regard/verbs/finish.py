"""The end of a run: the best model is scored on the test pairs and gets its model card."""

import torch

from regard import console
from regard.data.corpus import Pair
from regard.evaluation.translation import Score
from regard.verbs.card import model_card
from regard.verbs.prepare import Prepared
from regard.verbs.settings import RecipeFile
from regard.verbs.validation import decoded_scores
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import LoadedModel, load_model


def finish(source: RecipeFile, prepared: Prepared, run: RunFolder, device: torch.device) -> dict[str, float]:
    """Scores on the test pairs, decoded as the recipe says; where there are none, the best validation's."""
    best = load_model(run.path / "best", device)
    scores = scores_on_test(source, best, prepared.test) if prepared.test else []
    card = model_card(source, best, scores, run.metrics())
    (run.path / "best" / "README.md").write_text(card, "utf-8")
    if scores:
        run.append_metrics({"kind": "test", "scores": {score.name: score.value for score in scores}})
        console.scores(f"{source.recipe.name}: test", scores)
        return {score.name: score.value for score in scores}
    folder = run.best()
    step = folder.manifest.get("step") if folder else None
    measured = [record for record in run.metrics() if record.get("step") == step]
    [*_, best_record] = [record for record in measured if record["kind"] in ("validation", "average")]
    return {key: value for key, value in best_record.items() if key not in ("kind", "step", "of")}


def scores_on_test(source: RecipeFile, model: LoadedModel, pairs: list[Pair]) -> list[Score]:
    """Scores of `model` on the recipe's test pairs, decoded as the recipe says."""
    recipe = source.recipe
    generation = recipe.decoding.with_(n_best=1)
    found = decoded_scores(model.model, pairs, model.tokenizers, recipe.validation, generation)
    return list(found.values())
