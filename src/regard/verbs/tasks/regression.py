"""Text regression (grades, ratings): an encoder's pooled states give a number."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch

from regard.data.corpus import LinePolicy
from regard.data.labelled import LabelledSettings, numeric_labels
from regard.data.texts import EncodedText
from regard.data.tokenizer import Tokenizer
from regard.errors import DataError
from regard.evaluation.regression import (
    correlation,
    determination,
    mean_absolute_error,
    pairs_interval,
    rank_correlation,
    root_mean_squared_error,
)
from regard.evaluation.score import FineScore, Score, version_fact
from regard.training.objective import Objective, SquaredError
from regard.verbs.shared.load_encoder import encoder_that
from regard.verbs.tasks.labelled_texts import (
    LabelledPart,
    LabelledTextTask,
    open_parts,
    parts_kept,
    print_sizes,
    read_test_pairs,
    separate_validation,
)
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.task import HeldOutData, Say, ScoreReport, settings_of_test_data
from regard.verbs.tasks.text import (
    TextRecipe,
    WordDropoutSettings,
    encoder_config,
    load_or_train_tokenizer,
    logits_of,
    max_text_tokens,
)
from regard.verbs.tasks.validation_split import OptionalValidation
from regard.verbs.training_run.data_checks import counts_of_skipped
from regard.weights.model_folder import LoadedModel


@dataclass(frozen=True, kw_only=True)
class RegressionSettings(WordDropoutSettings):
    """The section `[task]` of a recipe."""

    kind: Literal["regression"]  # the task


@dataclass(frozen=True, kw_only=True)
class RegressionDataSettings(OptionalValidation):
    """`[data]`: files of texts with numbers. Without `valid`, a share of the training texts is held out."""

    train: LabelledSettings
    valid: LabelledSettings | None = None
    test: LabelledSettings | None = None
    lines: LinePolicy = field(default_factory=LinePolicy)


@dataclass(frozen=True, kw_only=True)
class RegressionRecipe(TextRecipe):
    """Recipe of a text regression: data, tokeniser, model, training."""

    predicts_classes: ClassVar[bool] = False
    measured: ClassVar[tuple[str, ...]] = ("mean_absolute_error",)
    task: RegressionSettings
    data: RegressionDataSettings


class Regression(LabelledTextTask):
    """Training, validation and test texts with their numbers.

    The loss is the squared error in units of the training numbers' standard deviation, so a model that
    always predicts their mean has a loss of 1.
    """

    def __init__(
        self,
        recipe: RegressionRecipe,
        scale: tuple[float, float],
        parts: Mapping[str, LabelledPart],
        tokenizer: Tokenizer,
        files: Mapping[str, bytes],
    ) -> None:
        mean, self._std = scale
        config = encoder_config(
            recipe, head="regression", vocab_size=tokenizer.vocab_size, label_mean=mean, label_std=self._std
        )
        super().__init__(recipe, config, parts, tokenizer, files)

    def objective(self) -> Objective:
        return SquaredError(std=self._std)

    def validate(self, model: Any) -> dict[str, float]:
        predictions, labels = _predictions_and_labels(model, self._valid, self.tokenizer.pad_id)
        loss = float((((predictions - labels) / self._std) ** 2).mean())
        return {"loss": loss, "mean_absolute_error": mean_absolute_error(predictions, labels)}

    def test(self, model: Any) -> list[Score]:
        if not self._test:
            return []
        return _evaluate(model, self._test, self.tokenizer.pad_id).scores


def _predictions_and_labels(
    model: Any, texts: Sequence[EncodedText], pad_id: int
) -> tuple[np.ndarray, np.ndarray]:
    predictions = torch.cat(logits_of(model, texts, pad_id)).double().numpy()
    return predictions, np.concatenate([text.labels for text in texts]).astype(np.float64)


def _evaluate(model: Any, texts: Sequence[EncodedText], pad_id: int) -> ScoreReport:
    predictions, labels = _predictions_and_labels(model, texts, pad_id)
    signature = f"texts:{len(labels)}|interval:bootstrap|{version_fact()}"
    metrics = {
        "mean absolute error": mean_absolute_error,
        "root mean squared error": root_mean_squared_error,
        "R2": determination,
        "Pearson's r": correlation,
        "Spearman's rho": rank_correlation,
    }
    scores: list[Score] = []
    for name, metric in metrics.items():
        low, high = pairs_interval(predictions, labels, metric)
        value = metric(predictions, labels)
        scores.append(FineScore(name=name, value=value, low=low, high=high, signature=signature))
    return ScoreReport(scores=scores)


def open_test_data(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test texts and their numbers."""
    recipe = cast(RegressionRecipe, source.recipe)
    model = encoder_that("predicts a number for texts", ("regression",), loaded, allow_fresh=False)
    settings, base = settings_of_test_data(recipe, loaded, data, source.base)
    corpus, pairs = read_test_pairs(settings, recipe.data.lines, base)
    tokenizer = loaded.tokenizers.source
    part = LabelledPart(pairs=pairs, labels=numeric_labels(corpus, pairs))
    texts = part.texts(tokenizer.encode_words, tokenizer, max_text_tokens(recipe, model.config))
    return HeldOutData(
        size=f"{len(texts):,} texts{counts_of_skipped(corpus.skipped)}",
        evaluate=partial(_evaluate, texts=texts, pad_id=tokenizer.pad_id),
    )


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> Regression:
    """Read all texts into memory, and train the tokeniser."""
    recipe = cast(RegressionRecipe, source.recipe)
    corpora = open_parts(recipe.data, source.base, folder)
    parts = {}
    for part, corpus in corpora.items():
        pairs = list(corpus)
        parts[part] = LabelledPart(pairs=pairs, labels=numeric_labels(corpus, pairs))
    print_sizes(parts, corpora, say)
    groups = [0] * len(parts["train"].pairs)
    separate_validation(parts, groups, recipe.data, recipe.training.seed, say)
    scale = _mean_and_deviation(cast(Sequence[float], parts["train"].labels))
    tokenizer, files = load_or_train_tokenizer(
        (pair.source for pair in parts["train"].pairs), recipe.tokenizer, folder, source.base, say
    )
    return Regression(recipe, scale, parts_kept(parts, limit), tokenizer, files)


def _mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation.

    Raises:
        DataError: all values are the same.
    """
    if len(set(values)) < 2:
        raise DataError("all training texts have the same number", "give texts with different numbers")
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
