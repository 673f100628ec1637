"""Tagging: a label for each word, such as its part of speech, learned from CoNLL-U files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np

from regard import console
from regard.data.batch import IGNORED
from regard.data.conllu import ConlluSettings, LabelColumn, Sentence, Treebank, labels_of
from regard.data.examples import Examples
from regard.data.labelled import LabelSet, split
from regard.data.tagged import encode_word, tagged_texts, word_prefix
from regard.data.texts import EncodedText
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_training import TokenizerSettings, refuse_target_settings
from regard.data.word_columns import LABEL_COLUMN, read_words, word_format
from regard.errors import DataError, RecipeError
from regard.evaluation.classification import SEED, accuracy, bootstrap_interval, confusion, macro_f1
from regard.evaluation.entities import (
    EntityCounts,
    are_entity_labels,
    entity_counts,
    entity_ratios,
    entity_scores,
)
from regard.evaluation.score import Score
from regard.training.objective import LabelCrossEntropy, Objective
from regard.verbs.shared.load_encoder import encoder_that
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import HeldOutData, Say, ScoreReport, Task, settings_of_test_data
from regard.verbs.tasks.text import (
    Encode,
    WordDropoutSettings,
    encoder_config,
    load_or_train_tokenizer,
    max_text_tokens,
    predictions_and_labels,
    training_examples,
)
from regard.verbs.tasks.validation_split import (
    PART_NAMES,
    OptionalValidation,
    examples_kept,
    settings_by_part,
)
from regard.verbs.training_run.data_checks import refuse_other_data
from regard.weights.model_folder import LoadedModel
from regard.weights.strict_json import json_bytes

CACHED_WORDS = 100_000  # words whose pieces are cached
WORDS_FILE = "words.json"  # file of a model folder: the CoNLL-U column of its labels


@dataclass(frozen=True, kw_only=True)
class TaggingSettings(WordDropoutSettings):
    """The section `[task]` of a recipe."""

    kind: Literal["tagging"]  # the task


@dataclass(frozen=True, kw_only=True)
class TaggedDataSettings(OptionalValidation):
    """`[data]`: CoNLL-U files, and the column of the labels.

    Without `valid`, a share of the training sentences is held out.
    """

    train: ConlluSettings
    valid: ConlluSettings | None = None
    test: ConlluSettings | None = None
    column: LabelColumn = "upos"  # the column with the labels


@dataclass(frozen=True, kw_only=True)
class TaggingRecipe(Recipe):
    """Recipe of a tagger: data, tokeniser, model, training."""

    model_kind: ClassVar[str] = "encoder_only"
    task: TaggingSettings
    data: TaggedDataSettings
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_target_settings(self.tokenizer)

    @property
    def metric_names(self) -> tuple[str, ...]:
        return ("accuracy", "macro_f1", "entity_f1")


@dataclass(frozen=True, kw_only=True)
class LabelledSentence:
    """The words of a sentence, the number of each word's label, and the sentence's first line in its file.

    A label that is not in the training data is IGNORED: it counts as wrong, and adds nothing to the loss.
    """

    words: tuple[str, ...]
    labels: tuple[int, ...]
    line: int


class Tagging(Task):
    """Training, validation and test sentences with their labels.

    A word whose label is not in the training data counts as wrong; for macro-F1 all such words are one more
    class, with an F1 of 0. If the labels are those of entities (BIO and the like), entities are scored, too.
    """

    use = 'regard tag --model . "..."'
    unit = "words"

    def __init__(
        self,
        recipe: TaggingRecipe,
        labels: tuple[str, ...],
        parts: Mapping[str, Sequence[LabelledSentence]],
        tokenizer: Tokenizer,
        files: Mapping[str, bytes],
    ) -> None:
        self.recipe: TaggingRecipe = recipe
        self.labels, self.tokenizer = labels, tokenizer
        _refuse_no_entities(recipe, labels)
        self.files = {**files, WORDS_FILE: json_bytes({"column": recipe.data.column})}
        self.config = encoder_config(
            recipe, head="tokens", vocab_size=tokenizer.vocab_size, num_labels=len(labels)
        )
        self._parts, self._max_tokens = parts, max_text_tokens(recipe, self.config)
        self._valid, self._test = (self._texts(part, tokenizer.encode_words) for part in ("valid", "test"))
        self.has_validation = bool(self._valid)

    def _texts(self, part: str, encode: Encode) -> list[EncodedText]:
        return _in_windows(self._parts.get(part, ()), self.tokenizer, encode, self._max_tokens)

    def objective(self) -> Objective:
        return LabelCrossEntropy(smoothing=self.recipe.training.label_smoothing)

    def examples(self) -> Examples:
        return training_examples(
            partial(self._texts, "train"),
            self.tokenizer,
            self.recipe.tokenizer,
            word_dropout=self.recipe.task.word_dropout,
            seed=self.recipe.training.seed,
        )

    def validate(self, model: Any) -> dict[str, float]:
        predictions, labels, loss = predictions_and_labels(model, self._valid, self.tokenizer.pad_id)
        table = _confusion(np.concatenate(labels), np.concatenate(predictions), len(self.labels))
        found = {"loss": loss, "accuracy": 100 * accuracy(table), "macro_f1": 100 * macro_f1(table)}
        if are_entity_labels(self.labels):
            counts = _entity_counts(self._valid, labels, predictions, self.labels)
            found |= {f"entity_{name}": 100 * value for name, value in entity_scores(counts).items()}
        return found

    def test(self, model: Any) -> list[Score]:
        if not self._test:
            return []
        column = self.recipe.data.column
        return _evaluate(model, self._test, self.labels, self.tokenizer.pad_id, column).scores


def _refuse_no_entities(recipe: TaggingRecipe, labels: Sequence[str]) -> None:
    if "entity_f1" in recipe.training.choosing and not are_entity_labels(labels):
        raise RecipeError(
            "training.best_metric is entity_f1, but the labels are not those of entities",
            "entities have labels such as B-PER, I-PER and O; choose accuracy or macro_f1 for others",
        )


def _entity_counts(
    texts: Sequence[EncodedText],
    labels: Sequence[np.ndarray],
    predictions: Sequence[np.ndarray],
    names: Sequence[str],
) -> EntityCounts:
    """The counts of each sentence, whose windows are joined; an unknown label is never right."""
    sentences: dict[int, tuple[list[str], list[str]]] = {}
    for text, true, predicted in zip(texts, labels, predictions, strict=True):
        ours, theirs = sentences.setdefault(text.line, ([], []))
        ours += ["" if number == IGNORED else names[number] for number in true.tolist()]
        theirs += [names[number] for number in predicted.tolist()]
    return entity_counts(*zip(*sentences.values(), strict=True))


def _confusion(labels: np.ndarray, predictions: np.ndarray, num_labels: int) -> np.ndarray:
    """The confusion matrix (rows: true labels); its last row counts labels not in the training data."""
    return confusion(np.where(labels == IGNORED, num_labels, labels), predictions, num_labels + 1)


def _evaluate(
    model: Any, texts: Sequence[EncodedText], names: Sequence[str], pad_id: int, column: str
) -> ScoreReport:
    """Accuracy and macro-F1, of entities precision, recall and F1.

    Intervals resample sentences, since a sentence's words are not independent.
    """
    num_labels = len(names)
    by_text = predictions_and_labels(model, texts, pad_id)
    predictions, labels = (np.concatenate(each) for each in by_text[:2])
    lines = np.repeat([text.line for text in texts], [len(text.labels) for text in texts])
    sentences, sentence = np.unique(lines, return_inverse=True)  # `sentence`: the sentence of each word
    table = _confusion(labels, predictions, num_labels)
    low, high = bootstrap_interval(
        np.bincount(sentence[predictions == labels], minlength=len(sentences)).tolist(),
        np.bincount(sentence).tolist(),
    )
    f1_low, f1_high = _f1_interval(labels, predictions, sentence, num_labels)
    unseen = int(np.count_nonzero(labels == IGNORED))
    examples = f"words:{len(labels)}|sentences:{len(sentences)}|column:{column}"
    examples += f"|unseen:{unseen}" if unseen else ""
    signature = f"{examples}|bs:1000|seed:12345|version:regard {version('regard')}"
    scores = [
        Score(
            name="accuracy",
            value=100 * accuracy(table),
            low=100 * low,
            high=100 * high,
            signature=signature,
        ),
        Score(
            name="macro-F1",
            value=100 * macro_f1(table),
            low=100 * f1_low,
            high=100 * f1_high,
            signature=signature,
        ),
    ]
    if are_entity_labels(names):
        scores += _entity_score_list(_entity_counts(texts, by_text[1], by_text[0], names))
    return ScoreReport(scores=scores, confusion=table[:num_labels, :num_labels])


def _entity_score_list(counts: EntityCounts) -> list[Score]:
    """Precision, recall and F1 of entities in percent, with intervals that resample sentences."""
    _, predicted, true = counts.sum(axis=0).tolist()
    signature = f"entities:{true}|predicted:{predicted}|sentences:{len(counts)}"
    scores = []
    for name, (above, below) in entity_ratios(counts).items():
        low, high = bootstrap_interval(above.tolist(), below.tolist())
        scores.append(
            Score(
                name=f"entity {name.replace('f1', 'F1')}",
                value=100 * entity_scores(counts)[name],
                low=100 * low,
                high=100 * high,
                signature=f"{signature}|bs:1000|seed:{SEED}|version:regard {version('regard')}",
            )
        )
    return scores


def _f1_interval(
    labels: np.ndarray,
    predictions: np.ndarray,
    sentence: np.ndarray,
    num_labels: int,
    resamples: int = 1000,
) -> tuple[float, float]:
    """The 95 % bootstrap interval of macro-F1; `sentence` is the number of each word's sentence, from 0."""
    random = np.random.Generator(np.random.PCG64(SEED))
    count, values = int(sentence.max()) + 1, np.empty(resamples)
    for number in range(resamples):
        times = np.bincount(random.integers(0, count, count), minlength=count)[sentence]
        table = _confusion(np.repeat(labels, times), np.repeat(predictions, times), num_labels)
        values[number] = macro_f1(table)
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def open_test_data(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test sentences; a warning counts the words whose label the model does not know."""
    recipe = cast(TaggingRecipe, source.recipe)
    model = encoder_that("labels words", ("tokens",), loaded, allow_fresh=False)
    settings, base = settings_of_test_data(recipe, loaded, data, source.base)
    bank, column, tokenizer = Treebank(settings, base), recipe.data.column, loaded.tokenizers.source
    kind = word_format(bank.path) if data is not None else "conllu"
    column = LABEL_COLUMN if kind == "columns" else column
    labels = LabelSet.of_model(loaded.labels, {})
    sentences = [
        _tagged(each, column, labels, str(bank.path)) for each in read_words(bank.path, kind or "conllu")
    ]
    if not sentences:
        raise DataError(f"{bank.path}: no sentence", "name another file")
    texts = _in_windows(sentences, tokenizer, tokenizer.encode_words, max_text_tokens(recipe, model.config))
    words = sum(len(each.words) for each in sentences)
    if unseen := _unseen_labels(sentences, str(bank.path)):
        console.warn(f"{bank.path}: {unseen}; the confusion matrix leaves them out")
    return HeldOutData(
        size=f"{len(sentences):,} sentences, {words:,} words",
        evaluate=partial(
            _evaluate,
            texts=texts,
            names=loaded.labels,
            pad_id=tokenizer.pad_id,
            column="last" if kind == "columns" else column,
        ),
    )


def _in_windows(
    sentences: Sequence[LabelledSentence], tokenizer: Tokenizer, encode: Encode, max_tokens: int
) -> list[EncodedText]:
    """The sentences, each cut into windows of at most `max_tokens`."""
    pieces = lru_cache(CACHED_WORDS)(partial(encode_word, encode=encode, prefix=word_prefix(tokenizer)))
    return [
        text
        for sentence in sentences
        for text in tagged_texts(
            [pieces(word) for word in sentence.words],
            sentence.labels,
            tokenizer=tokenizer,
            line=sentence.line,
            max_tokens=max_tokens,
        )
    ]


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> Tagging:
    """Read all sentences into memory, and train the tokeniser."""
    recipe = cast(TaggingRecipe, source.recipe)
    data = recipe.data
    banks = {part: Treebank(settings, source.base) for part, settings in settings_by_part(data).items()}
    fingerprints = {part: (bank.name, bank.fingerprint(data.column)) for part, bank in banks.items()}
    refuse_other_data(fingerprints, folder)
    sentences = {part: list(bank) for part, bank in banks.items()}
    if data.train_on_valid:
        sentences["train"] += sentences.pop("valid", [])
        say("validation: none in this run; its sentences are trained on")
    train = sentences["train"]
    name = str(banks["train"].path)
    labels = LabelSet.of((label for each in train for label in labels_of(each, data.column, name)), {})
    parts = {
        part: [_tagged(each, data.column, labels, str(banks[part].path)) for each in sentences[part]]
        for part in sentences
    }
    if "valid" not in parts and not data.train_on_valid:
        kept, held_out = split([0] * len(train), data.valid_share, recipe.training.seed)
        parts["valid"] = [parts["train"][number] for number in held_out]
        parts["train"] = [parts["train"][number] for number in kept]
    for part, title in PART_NAMES.items():
        if part in parts:
            words = sum(len(each.words) for each in parts[part])
            if not parts[part]:
                raise DataError(f"data.{part} has no sentence", "look at the file and at data.valid_share")
            unseen = _unseen_labels(parts[part], f"data.{part}")
            say(f"{title}: {len(parts[part]):,} sentences, {words:,} words{unseen and f'; {unseen}'}")
    tokenizer, files = load_or_train_tokenizer(
        (word for each in parts["train"] for word in each.words), recipe.tokenizer, folder, source.base, say
    )
    parts = {part: each[: examples_kept(part, limit)] for part, each in parts.items()}
    return Tagging(recipe, labels.names, parts, tokenizer, files)


def _tagged(sentence: Sentence, column: LabelColumn, labels: LabelSet, name: str) -> LabelledSentence:
    return LabelledSentence(
        words=sentence.forms,
        labels=tuple(labels.numbers.get(label, IGNORED) for label in labels_of(sentence, column, name)),
        line=sentence.first_line,
    )


def _unseen_labels(sentences: Sequence[LabelledSentence], name: str) -> str:
    """A sentence that counts the words whose label is not in the training data; empty if there are none.

    Raises:
        DataError: no word has a label of the training data.
    """
    count = sum(each.labels.count(IGNORED) for each in sentences)
    if count == sum(len(each.labels) for each in sentences):
        raise DataError(f"{name}: no word has a label of the training data", "look at data.column")
    return (
        f"{count:,} words have a label that is not in the training data and count as wrong" if count else ""
    )
