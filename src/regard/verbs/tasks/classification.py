"""Text classification (sentiment, topics): an encoder's pooled states give the class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np

from regard.data.corpus import LinePolicy
from regard.data.labelled import LabelledSettings, LabelSet, class_weights, classes_of
from regard.data.loader import Loader
from regard.data.texts import EncodedText
from regard.data.tokenizer import Tokenizer
from regard.errors import RecipeError
from regard.evaluation.classification import accuracy, confusion, macro_f1, table_interval
from regard.evaluation.proportion import wilson_interval
from regard.evaluation.score import Score, version_fact
from regard.training.collapse import target_entropy
from regard.training.objective import LabelCrossEntropy, Objective
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
    max_text_tokens,
    predictions_and_labels,
)
from regard.verbs.tasks.validation_split import DRY_RUN_EXAMPLES, OptionalValidation
from regard.verbs.training_run.data_checks import counts_of_skipped
from regard.weights.model_folder import LoadedModel


@dataclass(frozen=True, kw_only=True)
class ClassificationSettings(WordDropoutSettings):
    """`[task]`. `class_weights`: "balanced" gives each class the same total weight; a table gives weights."""

    kind: Literal["classification"]  # the task
    class_weights: Literal["none", "balanced"] | dict[str, Any] = "none"


@dataclass(frozen=True, kw_only=True)
class LabelledDataSettings(OptionalValidation):
    """`[data]`: files of texts with classes. Without `valid`, a share of each training class is held out.

    `label_names`: names for labels of the files; labels with the same name are one class.
    """

    train: LabelledSettings
    valid: LabelledSettings | None = None
    test: LabelledSettings | None = None
    label_names: dict[str, Any] = field(default_factory=dict)
    lines: LinePolicy = field(default_factory=LinePolicy)

    def __post_init__(self) -> None:
        super().__post_init__()
        for label, name in self.label_names.items():
            if not isinstance(name, str) or not name:
                raise RecipeError(
                    f"data.label_names calls {label!r} {name!r}", "give a name as a string that is not empty"
                )


@dataclass(frozen=True, kw_only=True)
class ClassificationRecipe(TextRecipe):
    """Recipe of a text classifier: data, tokeniser, model, training."""

    measured: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1")
    task: ClassificationSettings
    data: LabelledDataSettings


class Classification(LabelledTextTask):
    """Training, validation and test texts with their classes."""

    def __init__(
        self,
        recipe: ClassificationRecipe,
        labels: tuple[str, ...],
        weights: tuple[float, ...] | None,
        parts: Mapping[str, LabelledPart],
        tokenizer: Tokenizer,
        files: Mapping[str, bytes],
    ) -> None:
        self.labels, self._weights = labels, weights
        config = encoder_config(
            recipe, head="classification", vocab_size=tokenizer.vocab_size, num_labels=len(labels)
        )
        super().__init__(recipe, config, parts, tokenizer, files)

    def objective(self) -> Objective:
        return LabelCrossEntropy(smoothing=self.recipe.training.label_smoothing, weights=self._weights)

    def target_entropy(self, loader: Loader) -> float | None:
        return target_entropy(loader.epoch(0)) if self._weights is None else None

    def validate(self, model: Any) -> dict[str, float]:
        table, loss = confusion_and_loss(model, self._valid, len(self.labels), self.tokenizer.pad_id)
        return {"loss": loss, "accuracy": 100 * accuracy(table), "macro_f1": 100 * macro_f1(table)}

    def test(self, model: Any) -> list[Score]:
        if not self._test:
            return []
        return _evaluate(model, self._test, len(self.labels), self.tokenizer.pad_id).scores


def confusion_and_loss(
    model: Any, texts: Sequence[EncodedText], num_labels: int, pad_id: int
) -> tuple[np.ndarray, float]:
    """The confusion matrix (rows: true classes, columns: predictions) and the mean loss."""
    predictions, labels, loss = predictions_and_labels(model, texts, pad_id)
    return confusion(np.concatenate(labels), np.concatenate(predictions), num_labels), loss


def _evaluate(model: Any, texts: Sequence[EncodedText], num_labels: int, pad_id: int) -> ScoreReport:
    table, _ = confusion_and_loss(model, texts, num_labels, pad_id)
    return ScoreReport(scores=class_test_scores(table, f"texts:{len(texts)}"), confusion=table)


def open_test_data(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test texts; their classes must be among the model's."""
    recipe = cast(ClassificationRecipe, source.recipe)
    model = encoder_that("classifies texts", ("classification",), loaded, allow_fresh=False)
    settings, base = settings_of_test_data(recipe, loaded, data, source.base)
    corpus, pairs = read_test_pairs(settings, recipe.data.lines, base, classes=True)
    labels = LabelSet.of_model(loaded.labels, recipe.data.label_names)
    tokenizer = loaded.tokenizers.source
    part = LabelledPart(pairs=pairs, labels=classes_of(corpus, pairs, labels))
    texts = part.texts(tokenizer.encode_words, tokenizer, max_text_tokens(recipe, model.config))
    return HeldOutData(
        size=f"{len(texts):,} texts{counts_of_skipped(corpus.skipped)}",
        evaluate=partial(_evaluate, texts=texts, num_labels=len(loaded.labels), pad_id=tokenizer.pad_id),
    )


def class_test_scores(table: np.ndarray, examples: str) -> list[Score]:
    """Accuracy and macro-F1 in percent with intervals; `examples` ("texts:15") goes into their signatures."""
    low, high = wilson_interval(int(np.trace(table)), int(table.sum()))
    f1_low, f1_high = table_interval(table, macro_f1)
    accuracy_score = Score(
        name="accuracy",
        value=100 * accuracy(table),
        low=100 * low,
        high=100 * high,
        signature=f"{examples}|interval:wilson|{version_fact()}",
    )
    f1_score = Score(
        name="macro-F1",
        value=100 * macro_f1(table),
        low=100 * f1_low,
        high=100 * f1_high,
        signature=f"{examples}|classes:{len(table)}|bs:1000|seed:12345|{version_fact()}",
    )
    return [accuracy_score, f1_score]


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> Classification:
    """Read all texts into memory, and train the tokeniser."""
    recipe = cast(ClassificationRecipe, source.recipe)
    data = recipe.data
    corpora = open_parts(data, source.base, folder, classes=True)
    pairs = {part: list(corpus) for part, corpus in corpora.items()}
    labels = LabelSet.of((pair.target for pair in pairs["train"]), data.label_names)
    parts = {
        part: LabelledPart(pairs=pairs[part], labels=classes_of(corpora[part], pairs[part], labels))
        for part in corpora
    }
    print_sizes(parts, corpora, say)
    separate_validation(parts, parts["train"].labels, data, recipe.training.seed, say)
    tokenizer, files = load_or_train_tokenizer(
        (pair.source for pair in parts["train"].pairs), recipe.tokenizer, folder, source.base, say
    )
    classes = cast(Sequence[int], parts["train"].labels)
    weights = class_weights(recipe.task.class_weights, classes, labels.names)
    task = Classification(recipe, labels.names, weights, parts_kept(parts, limit), tokenizer, files)
    if task.has_validation:
        task.dry_run_share = min(DRY_RUN_EXAMPLES / len(parts["valid"].pairs), 1.0)
    return task
