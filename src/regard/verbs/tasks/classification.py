"""Classes of texts, such as sentiments or topics, by an encoder whose states become one vector."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np

from regard.data.corpus import Corpus, LinePolicy, Pair
from regard.data.examples import Examples
from regard.data.labelled import LabelledSettings, LabelSet, class_weights, classes_of, open_labelled, split
from regard.data.loader import Loader
from regard.data.texts import EncodedText, encoded_text
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import DataError, RecipeError
from regard.evaluation.classification import accuracy, confusion, macro_f1, table_interval
from regard.evaluation.proportion import wilson_interval
from regard.evaluation.score import Score
from regard.training.collapse import target_entropy
from regard.training.objective import LabelCrossEntropy, Objective
from regard.verbs.data_fingerprints import counts_of_skipped, refuse_other_data
from regard.verbs.load_encoder import encoder_that
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import TRIAL, HeldOutData, Measured, Say, Task, held_settings
from regard.verbs.tasks.text import (
    Encode,
    WordDropoutSettings,
    encoder_config,
    most_tokens,
    predictions_and_labels,
    refuse_r_drop,
    stored_tokenizer,
    training_examples,
)
from regard.weights.model_folder import LoadedModel


@dataclass(frozen=True, kw_only=True)
class ClassificationSettings(WordDropoutSettings):
    """`[task]`. `class_weights`: "balanced" lets each class count alike, a table gives each its weight."""

    kind: Literal["classification"]
    class_weights: Literal["none", "balanced"] | dict[str, Any] = "none"


@dataclass(frozen=True, kw_only=True)
class LabelledDataSettings:
    """Where the texts are. Without `valid`, a share of each class of the training texts is put by.

    `label_names`: what labels of the files are to be called; labels of one name are one class.
    """

    train: LabelledSettings
    valid: LabelledSettings | None = None
    test: LabelledSettings | None = None
    valid_share: float = 0.1
    label_names: dict[str, Any] = field(default_factory=dict)
    lines: LinePolicy = field(default_factory=LinePolicy)

    def __post_init__(self) -> None:
        if not 0 < self.valid_share < 1:
            raise RecipeError(f"data.valid_share = {self.valid_share} is no share", "0.1 is a tenth")
        for label, name in self.label_names.items():
            if not isinstance(name, str) or not name:
                raise RecipeError(f"data.label_names calls {label!r} {name!r}", "a name is a string")


@dataclass(frozen=True, kw_only=True)
class ClassificationRecipe(Recipe):
    """Data, tokeniser, model, training."""

    model_kind: ClassVar[str] = "encoder_only"
    task: ClassificationSettings
    data: LabelledDataSettings
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)

    @property
    def measured(self) -> tuple[str, ...]:
        return ("accuracy", "macro_f1")

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_r_drop(self)


@dataclass(frozen=True, kw_only=True)
class LabelledPart:
    """Texts of one use (training, validation, test), and the number of the class of each."""

    pairs: Sequence[Pair]
    labels: Sequence[int] | Sequence[float]

    def of(self, numbers: Sequence[int]) -> "LabelledPart":
        return LabelledPart(pairs=[self.pairs[i] for i in numbers], labels=[self.labels[i] for i in numbers])

    def first(self, count: int) -> "LabelledPart":
        return LabelledPart(pairs=self.pairs[:count], labels=self.labels[:count])

    def texts(self, encode: Encode, tokenizer: Tokenizer, max_tokens: int) -> list[EncodedText]:
        """The texts as the model reads them: of what is too long the beginning."""
        return [
            encoded_text(
                encode(pair.source.strip()),
                [label],
                tokenizer=tokenizer,
                line=pair.line,
                max_tokens=max_tokens,
            )
            for pair, label in zip(self.pairs, self.labels, strict=True)
        ]


class Classification(Task):
    """Texts to train on, to validate on and to test on, and their classes."""

    use = 'regard classify --model . "..."'

    def __init__(
        self,
        recipe: ClassificationRecipe,
        labels: tuple[str, ...],
        weights: tuple[float, ...] | None,
        parts: Mapping[str, LabelledPart],
        tokenizer: Tokenizer,
        files: Mapping[str, bytes],
    ) -> None:
        self.recipe: ClassificationRecipe = recipe
        self.labels, self.tokenizer, self.files = labels, tokenizer, files
        self.config = encoder_config(
            recipe, head="classification", vocab_size=tokenizer.vocab_size, num_labels=len(labels)
        )
        self._parts, self._max_tokens = parts, most_tokens(recipe, self.config)
        self._weights = weights
        self._valid, self._test = (self._texts(part, tokenizer.encode_words) for part in ("valid", "test"))

    def _texts(self, part: str, encode: Encode) -> list[EncodedText]:
        if part not in self._parts:
            return []
        return self._parts[part].texts(encode, self.tokenizer, self._max_tokens)

    def objective(self) -> Objective:
        return LabelCrossEntropy(smoothing=self.recipe.training.label_smoothing, weights=self._weights)

    def examples(self) -> Examples:
        return training_examples(
            partial(self._texts, "train"),
            self.tokenizer,
            self.recipe.tokenizer,
            word_dropout=self.recipe.task.word_dropout,
            seed=self.recipe.training.seed,
        )

    def target_entropy(self, loader: Loader) -> float | None:
        return target_entropy(loader.epoch(0)) if self._weights is None else None

    def validate(self, model: Any) -> dict[str, float]:
        table, loss = class_table(model, self._valid, len(self.labels), self.tokenizer.pad_id)
        return {"loss": loss, "accuracy": 100 * accuracy(table), "macro_f1": 100 * macro_f1(table)}

    def test(self, model: Any) -> list[Score]:
        if not self._test:
            return []
        return _measured(model, self._test, len(self.labels), self.tokenizer.pad_id).scores


def class_table(
    model: Any, texts: Sequence[EncodedText], num_labels: int, pad_id: int
) -> tuple[np.ndarray, float]:
    """Which classes are taken for which, and the mean loss."""
    said, truth, loss = predictions_and_labels(model, texts, pad_id)
    return confusion(np.concatenate(truth), np.concatenate(said), num_labels), loss


def _measured(model: Any, texts: Sequence[EncodedText], num_labels: int, pad_id: int) -> Measured:
    table, _ = class_table(model, texts, num_labels, pad_id)
    return Measured(scores=class_test_scores(table, f"texts:{len(texts)}"), confusion=table)


def hold(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test texts, whose classes are those that the model knows."""
    recipe = cast(ClassificationRecipe, source.recipe)
    model = encoder_that("classifies texts", ("classification",), loaded, allow_fresh=False)
    settings, base = held_settings(recipe.data, data, source.base)
    corpus = open_labelled(settings, recipe.data.lines, base, classes=True)
    pairs = list(corpus)
    if not pairs:
        raise DataError(f"{corpus.name}: no text is left", "look at data.lines of the recipe")
    labels = LabelSet.of_model(loaded.labels, recipe.data.label_names)
    tokenizer = loaded.tokenizers.source
    part = LabelledPart(pairs=pairs, labels=classes_of(corpus, pairs, labels))
    texts = part.texts(tokenizer.encode_words, tokenizer, most_tokens(recipe, model.config))
    return HeldOutData(
        counted=f"{len(texts):,} texts{counts_of_skipped(corpus.skipped)}",
        measure=partial(_measured, texts=texts, num_labels=len(loaded.labels), pad_id=tokenizer.pad_id),
    )


def class_test_scores(table: np.ndarray, counted: str) -> list[Score]:
    """Accuracy and macro-F1 in percent, with their intervals; `counted` is what of, for the signature."""
    low, high = wilson_interval(int(np.trace(table)), int(table.sum()))
    f1_low, f1_high = table_interval(table, macro_f1)
    right = Score(
        name="accuracy",
        value=100 * accuracy(table),
        low=100 * low,
        high=100 * high,
        signature=f"{counted}|interval:wilson|version:regard {version('regard')}",
    )
    mean = Score(
        name="macro-F1",
        value=100 * macro_f1(table),
        low=100 * f1_low,
        high=100 * f1_high,
        signature=f"{counted}|classes:{len(table)}|bs:1000|seed:12345|version:regard {version('regard')}",
    )
    return [right, mean]


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> Classification:
    """Read all texts; they stay in memory."""
    recipe = cast(ClassificationRecipe, source.recipe)
    data = recipe.data
    given = {"train": data.train, "valid": data.valid, "test": data.test}
    corpora = labelled_corpora(given, data.lines, source.base, classes=True)
    refuse_other_data({part: (each.name, each.fingerprint()) for part, each in corpora.items()}, folder)
    pairs = {part: list(corpus) for part, corpus in corpora.items()}
    labels = LabelSet.of((pair.target for pair in pairs["train"]), data.label_names)
    parts = {
        part: LabelledPart(pairs=pairs[part], labels=classes_of(corpora[part], pairs[part], labels))
        for part in corpora
    }
    report_parts(parts, corpora, say)
    split_off(parts, parts["train"].labels, data.valid_share, recipe.training.seed, say)
    tokenizer, files = stored_tokenizer(
        (pair.source for pair in parts["train"].pairs), recipe.tokenizer, folder, say
    )
    classes = cast(Sequence[int], parts["train"].labels)
    weights = class_weights(recipe.task.class_weights, classes, labels.names)
    task = Classification(recipe, labels.names, weights, shortened(parts, limit), tokenizer, files)
    task.trial_share = min(TRIAL / len(parts["valid"].pairs), 1.0)
    return task


def labelled_corpora(
    given: Mapping[str, LabelledSettings | None], policy: LinePolicy, base: Path, *, classes: bool = False
) -> dict[str, Corpus]:
    """The corpora of the parts that are given; whether their labels are `classes`."""
    return {
        part: open_labelled(settings, policy, base, classes=classes)
        for part, settings in given.items()
        if settings is not None
    }


def split_off(
    parts: dict[str, LabelledPart], groups: Sequence[object], share: float, seed: int, say: Say
) -> None:
    """Take the texts to validate on out of those to train on, unless there are others.

    Raises:
        DataError: there is nothing to validate on.
    """
    if "valid" not in parts:
        kept, taken = split(groups, share, seed)
        parts["valid"], parts["train"] = parts["train"].of(taken), parts["train"].of(kept)
        say(f"validation: {len(taken):,} of the training texts, a share of each class")
    if not parts["valid"].pairs:
        raise DataError("no text is left to validate on", "look at data.valid and data.valid_share")


def report_parts(parts: Mapping[str, LabelledPart], corpora: Mapping[str, Corpus], say: Say) -> None:
    for part, name in (("train", "training"), ("valid", "validation"), ("test", "test")):
        if part in parts:
            skipped = counts_of_skipped(corpora[part].skipped)
            say(f"{name}: {len(parts[part].pairs):,} texts{skipped}")


def shortened(parts: Mapping[str, LabelledPart], limit: int | None) -> dict[str, LabelledPart]:
    """For a trial, some of each."""
    if limit is None:
        return dict(parts)
    return {part: each.first(limit if part == "train" else TRIAL) for part, each in parts.items()}
