"""A number for each text, such as a grade, by an encoder whose states become one vector."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch

from regard.data.corpus import LinePolicy
from regard.data.examples import Examples
from regard.data.labelled import LabelledSettings, numeric_labels, open_labelled
from regard.data.texts import EncodedText
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import DataError, RecipeError
from regard.evaluation.regression import correlation, mean_absolute_error
from regard.evaluation.score import Score
from regard.training.objective import Objective, SquaredError
from regard.verbs.data_fingerprints import counts_of_skipped, refuse_other_data
from regard.verbs.load_encoder import encoder_that
from regard.verbs.tasks.classification import (
    LabelledPart,
    labelled_corpora,
    report_parts,
    shortened,
    split_off,
)
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import HeldOutData, Measured, Say, Task, held_settings
from regard.verbs.tasks.text import (
    Encode,
    WordDropoutSettings,
    encoder_config,
    logits_of,
    most_tokens,
    refuse_r_drop,
    stored_tokenizer,
    training_examples,
)
from regard.weights.model_folder import LoadedModel


@dataclass(frozen=True, kw_only=True)
class RegressionSettings(WordDropoutSettings):
    """`[task]`."""

    kind: Literal["regression"]


@dataclass(frozen=True, kw_only=True)
class ValuedDataSettings:
    """Where texts with numbers are. Without `valid`, a share of the training texts is put by."""

    train: LabelledSettings
    valid: LabelledSettings | None = None
    test: LabelledSettings | None = None
    valid_share: float = 0.1
    lines: LinePolicy = field(default_factory=LinePolicy)

    def __post_init__(self) -> None:
        if not 0 < self.valid_share < 1:
            raise RecipeError(f"data.valid_share = {self.valid_share} is no share", "0.1 is a tenth")


@dataclass(frozen=True, kw_only=True)
class RegressionRecipe(Recipe):
    """Data, tokeniser, model, training."""

    model_kind: ClassVar[str] = "encoder_only"
    task: RegressionSettings
    data: ValuedDataSettings
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)

    @property
    def measured(self) -> tuple[str, ...]:
        return ("mean_absolute_error",)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_r_drop(self)


class Regression(Task):
    """Texts to train on, to validate on and to test on, and their numbers.

    The loss is the squared error in units of the training numbers' deviation: 1 is what their mean gives.
    """

    use = 'regard classify --model . "..."'

    def __init__(
        self,
        recipe: RegressionRecipe,
        scale: tuple[float, float],
        parts: Mapping[str, LabelledPart],
        tokenizer: Tokenizer,
        files: Mapping[str, bytes],
    ) -> None:
        self.recipe: RegressionRecipe = recipe
        self.tokenizer, self.files = tokenizer, files
        mean, self._std = scale
        self.config = encoder_config(
            recipe, head="regression", vocab_size=tokenizer.vocab_size, label_mean=mean, label_std=self._std
        )
        self._parts, self._max_tokens = parts, most_tokens(recipe, self.config)
        self._valid, self._test = (self._texts(part, tokenizer.encode_words) for part in ("valid", "test"))

    def _texts(self, part: str, encode: Encode) -> list[EncodedText]:
        if part not in self._parts:
            return []
        return self._parts[part].texts(encode, self.tokenizer, self._max_tokens)

    def objective(self) -> Objective:
        return SquaredError(std=self._std)

    def examples(self) -> Examples:
        return training_examples(
            partial(self._texts, "train"),
            self.tokenizer,
            self.recipe.tokenizer,
            word_dropout=self.recipe.task.word_dropout,
            seed=self.recipe.training.seed,
        )

    def validate(self, model: Any) -> dict[str, float]:
        said, truth = _answers(model, self._valid, self.tokenizer.pad_id)
        loss = float((((said - truth) / self._std) ** 2).mean())
        return {"loss": loss, "mean_absolute_error": mean_absolute_error(said, truth)}

    def test(self, model: Any) -> list[Score]:
        if not self._test:
            return []
        return _measured(model, self._test, self.tokenizer.pad_id).scores


def _answers(model: Any, texts: Sequence[EncodedText], pad_id: int) -> tuple[np.ndarray, np.ndarray]:
    said = torch.cat(logits_of(model, texts, pad_id)).double().numpy()
    return said, np.concatenate([text.labels for text in texts]).astype(np.float64)


def _measured(model: Any, texts: Sequence[EncodedText], pad_id: int) -> Measured:
    said, truth = _answers(model, texts, pad_id)
    signature = f"texts:{len(truth)}|version:regard {version('regard')}"
    measures = {"mean absolute error": mean_absolute_error, "Pearson's r": correlation}
    scores = [
        Score(name=name, value=measure(said, truth), low=None, high=None, signature=signature)
        for name, measure in measures.items()
    ]
    return Measured(scores=scores)


def hold(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test texts and their numbers."""
    recipe = cast(RegressionRecipe, source.recipe)
    model = encoder_that("gives texts a number", ("regression",), loaded, allow_fresh=False)
    settings, base = held_settings(recipe.data, data, source.base)
    corpus = open_labelled(settings, recipe.data.lines, base)
    pairs = list(corpus)
    if not pairs:
        raise DataError(f"{corpus.name}: no text is left", "look at data.lines of the recipe")
    tokenizer = loaded.tokenizers.source
    part = LabelledPart(pairs=pairs, labels=numeric_labels(corpus, pairs))
    texts = part.texts(tokenizer.encode_words, tokenizer, most_tokens(recipe, model.config))
    return HeldOutData(
        counted=f"{len(texts):,} texts{counts_of_skipped(corpus.skipped)}",
        measure=partial(_measured, texts=texts, pad_id=tokenizer.pad_id),
    )


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> Regression:
    """Read all texts; they stay in memory."""
    recipe = cast(RegressionRecipe, source.recipe)
    data = recipe.data
    given = {"train": data.train, "valid": data.valid, "test": data.test}
    corpora = labelled_corpora(given, data.lines, source.base)
    refuse_other_data({part: (each.name, each.fingerprint()) for part, each in corpora.items()}, folder)
    parts = {}
    for part, corpus in corpora.items():
        pairs = list(corpus)
        parts[part] = LabelledPart(pairs=pairs, labels=numeric_labels(corpus, pairs))
    report_parts(parts, corpora, say)
    split_off(parts, [0] * len(parts["train"].pairs), data.valid_share, recipe.training.seed, say)
    scale = _scale(cast(Sequence[float], parts["train"].labels))
    tokenizer, files = stored_tokenizer(
        (pair.source for pair in parts["train"].pairs), recipe.tokenizer, folder, say
    )
    return Regression(recipe, scale, shortened(parts, limit), tokenizer, files)


def _scale(values: Sequence[float]) -> tuple[float, float]:
    """Mean and deviation.

    Raises:
        DataError: there is nothing to tell apart.
    """
    if len(set(values)) < 2:
        raise DataError("all training texts have one number", "there is nothing to learn from them")
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
