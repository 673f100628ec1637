"""Scores of decoded texts have their unit, and an interval on request."""

import pytest

from regard.data.corpus import Pair
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import GenerationSettings
from regard.errors import RecipeError
from regard.verbs.recipes import recipe_path
from regard.verbs.shared.settings import load_recipe
from regard.verbs.tasks import translation_validation as validation
from regard.verbs.tasks.translation_validation import ValidationSettings, decoded_scores
from regard.weights.model_folder import load_model

WANTED = ["1 2 3 4", "5 6", "7 8 9", "1 1", ""] * 4
OUTPUTS = ["1 2 3 4", "5 7", "7 8", "1 1", ""] * 4  # one of 11 words is wrong and one is missing


@pytest.fixture
def scores(untrained, monkeypatch):
    """The scores of fixed outputs instead of the model's; arguments are the settings."""
    loaded = load_model(untrained)
    found = [
        [Hypothesis(ids=ids, log_prob=0.0, score=0.0, token_log_probs=[0.0] * len(ids))]
        for ids in loaded.tokenizers.target.encode_batch(OUTPUTS)
    ]
    monkeypatch.setattr(validation, "decode_all", lambda *_, **__: found)
    pairs = [Pair(source="1", target=target, line=line) for line, target in enumerate(WANTED, start=1)]
    settings = ValidationSettings(metrics=("exact_match", "error_rate"))

    def scores(**options):
        generation = GenerationSettings(max_length=12)
        return decoded_scores(loaded.model, pairs, loaded.tokenizers, settings, generation, **options)

    return scores


def test_an_error_rate_has_a_signature_and_an_interval(scores):
    score = scores()["error_rate"]
    assert score.value == pytest.approx(100 * 2 / 11)
    assert 0 < score.low < score.value < score.high < 40
    for part in ("sentences:20", "unit:word between spaces", "words:44", "bs:1000", "seed:12345"):
        assert part in score.signature.split("|")
    assert scores()["error_rate"] == score, "the same again"
    assert scores(bootstrap=50)["error_rate"].low != score.low


def test_exact_matches_have_an_interval_too(scores):
    score = scores()["exact_match"]
    assert score.value == 60.0
    assert 30 < score.low < 60 < score.high < 85
    assert "interval:wilson" in score.signature


def test_validation_in_training_spends_no_time_on_intervals(scores):
    for score in scores(bootstrap=0).values():
        assert score.low is None
        assert score.high is None
        assert "bs:" not in score.signature
        assert "wilson" not in score.signature


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"metrics": ("chrf", "exact_match"), "tokenize": "zh"}, "tokenize"),
        ({"metrics": ("exact_match", "error_rate"), "lowercase": True}, "lowercase"),
        ({"metrics": (), "lowercase": True}, "lowercase"),
    ],
)
def test_a_setting_of_metrics_that_are_not_measured_is_refused(settings, name):
    with pytest.raises(RecipeError, match=f"validation.{name} = .* has no effect"):
        ValidationSettings(**settings).refuse_unused()
    ValidationSettings(**{**settings, "metrics": ("bleu",)}).refuse_unused()


def test_chrf_is_called_as_what_it_is_and_its_former_name_is_read():
    assert ValidationSettings().metrics == ("bleu", "chrf++")
    assert ValidationSettings(metrics=("chrf", "bleu")) == ValidationSettings(metrics=("chrf++", "bleu"))
    sets = ["training.best_metric=chrf", "training.second_metric=loss"]
    training = load_recipe(recipe_path("multi30k-en-de"), sets).recipe.training
    assert training.choosing == ("chrf++", "loss")


def test_chrf_without_case_is_measured():
    ValidationSettings(metrics=("chrf",), lowercase=True).refuse_unused()
