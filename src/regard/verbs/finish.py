"""The end of a run: the best model is scored on the test pairs and gets its model card."""

import torch

from regard import console
from regard.decoding.batches import decode_all
from regard.evaluation.sequences import exact_match
from regard.evaluation.translation import Score, corpus_scores
from regard.verbs.card import model_card
from regard.verbs.prepare import corpus_of
from regard.verbs.settings import RecipeFile
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import LoadedModel, load_model


def finish(source: RecipeFile, run: RunFolder, device: torch.device) -> dict[str, float]:
    """Scores on the test pairs, decoded as the recipe says; where there are none, the last validation's."""
    best = load_model(run.path / "best", device)
    scores = test_scores(source, best) if source.recipe.data.test else []
    card = model_card(source, best, scores, run.metrics())
    (run.path / "best" / "README.md").write_text(card, "utf-8")
    if scores:
        run.append_metrics({"kind": "test", "scores": {score.name: score.value for score in scores}})
        console.scores(f"{source.recipe.name}: test", scores)
        return {score.name: score.value for score in scores}
    validations = [record for record in run.metrics() if record["kind"] == "validation"]
    return {key: value for key, value in validations[-1].items() if key not in ("kind", "step")}


def test_scores(source: RecipeFile, model: LoadedModel) -> list[Score]:
    """Scores of `model` on the recipe's test pairs, decoded as the recipe says."""
    recipe = source.recipe
    assert recipe.data.test
    pairs = list(corpus_of(source, recipe.data.test))
    sources = model.tokenizers.source.encode_batch([pair.source for pair in pairs])
    strategy = recipe.decoding.with_(n_best=1).strategy()
    found = decode_all(strategy, [model.model], sources, batch_tokens=recipe.validation.batch_tokens)
    texts = [model.tokenizers.target.decode(hypotheses[0].ids) for hypotheses in found]
    references = [[pair.target for pair in pairs]]
    scores = []
    if "exact_match" in recipe.validation.metrics:
        value = 100 * exact_match(texts, references)
        scores.append(
            Score(name="exact match", value=value, low=None, high=None, signature=f"sentences:{len(texts)}")
        )
    if {"bleu", "chrf"} & set(recipe.validation.metrics):
        scores += corpus_scores(
            texts, references, tokenize=recipe.validation.tokenize, lowercase=recipe.validation.lowercase
        )
    return scores
