"""Labels of words: parts of speech and their like, from CoNLL-U files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np

from regard import console
from regard.data.batch import IGNORED
from regard.data.conllu import Column, ConlluSettings, Sentence, Treebank, labels_of
from regard.data.examples import Examples
from regard.data.labelled import LabelSet, split
from regard.data.tagged import encode_word, tagged_texts, word_prefix
from regard.data.texts import EncodedText
from regard.data.tokenizer import Tokenizer, TokenizerSettings
from regard.errors import DataError, RecipeError
from regard.evaluation.classification import SEED, accuracy, bootstrap_interval, confusion, macro_f1
from regard.evaluation.score import Score
from regard.training.objective import LabelCrossEntropy, Objective
from regard.verbs.data_fingerprints import refuse_other_data
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
from regard.weights.strict_json import json_bytes

REMEMBERED = 100_000  # words whose pieces are kept
WORDS = "words.json"  # in a model folder: the column of CoNLL-U that its labels are of


@dataclass(frozen=True, kw_only=True)
class TaggingSettings(WordDropoutSettings):
    """`[task]`."""

    kind: Literal["tagging"]


@dataclass(frozen=True, kw_only=True)
class TaggedDataSettings:
    """Where the sentences are, and in which column the label of a word stands.

    Without `valid`, a share of the training sentences is put by.
    """

    train: ConlluSettings
    valid: ConlluSettings | None = None
    test: ConlluSettings | None = None
    column: Column = "upos"
    valid_share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.valid_share < 1:
            raise RecipeError(f"data.valid_share = {self.valid_share} is no share", "0.1 is a tenth")


@dataclass(frozen=True, kw_only=True)
class TaggingRecipe(Recipe):
    """Data, tokeniser, model, training."""

    model_kind: ClassVar[str] = "encoder_only"
    task: TaggingSettings
    data: TaggedDataSettings
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)

    @property
    def measured(self) -> tuple[str, ...]:
        return ("accuracy", "macro_f1")

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_r_drop(self)


@dataclass(frozen=True, kw_only=True)
class Tagged:
    """The words of a sentence and the number of the label of each; where it begins in its file.

    A label that training has never seen is IGNORED: no answer is right, and it has no part in the loss.
    """

    words: tuple[str, ...]
    labels: tuple[int, ...]
    line: int


class Tagging(Task):
    """Sentences to train on, to validate on and to test on.

    Words whose label training has never seen count as wrong; together they are one class more for macro-F1,
    whose F1 is 0.
    """

    use = 'regard tag --model . "..."'

    def __init__(
        self,
        recipe: TaggingRecipe,
        labels: tuple[str, ...],
        parts: Mapping[str, Sequence[Tagged]],
        tokenizer: Tokenizer,
        files: Mapping[str, bytes],
    ) -> None:
        self.recipe: TaggingRecipe = recipe
        self.labels, self.tokenizer = labels, tokenizer
        self.files = {**files, WORDS: json_bytes({"column": recipe.data.column})}
        self.config = encoder_config(
            recipe, head="tokens", vocab_size=tokenizer.vocab_size, num_labels=len(labels)
        )
        self._parts, self._max_tokens = parts, most_tokens(recipe, self.config)
        self._valid, self._test = (self._texts(part, tokenizer.encode_words) for part in ("valid", "test"))

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
        said, truth, loss = predictions_and_labels(model, self._valid, self.tokenizer.pad_id)
        table = _table(np.concatenate(truth), np.concatenate(said), len(self.labels))
        return {"loss": loss, "accuracy": 100 * accuracy(table), "macro_f1": 100 * macro_f1(table)}

    def test(self, model: Any) -> list[Score]:
        if not self._test:
            return []
        column = self.recipe.data.column
        return _measured(model, self._test, len(self.labels), self.tokenizer.pad_id, column).scores


def _table(truth: np.ndarray, said: np.ndarray, num_labels: int) -> np.ndarray:
    """Which labels are taken for which; the last row is of all those that training has never seen."""
    return confusion(np.where(truth == IGNORED, num_labels, truth), said, num_labels + 1)


def _measured(
    model: Any, texts: Sequence[EncodedText], num_labels: int, pad_id: int, column: Column
) -> Measured:
    """Intervals by resampling sentences, whose words hang together."""
    by_text = predictions_and_labels(model, texts, pad_id)
    said, truth = (np.concatenate(each) for each in by_text[:2])
    lines = np.repeat([text.line for text in texts], [len(text.labels) for text in texts])
    sentences, sentence = np.unique(lines, return_inverse=True)  # of each word, which one it is of
    table = _table(truth, said, num_labels)
    low, high = bootstrap_interval(
        np.bincount(sentence[said == truth], minlength=len(sentences)).tolist(),
        np.bincount(sentence).tolist(),
    )
    f1_low, f1_high = _f1_interval(truth, said, sentence, num_labels)
    unseen = int(np.count_nonzero(truth == IGNORED))
    counted = f"words:{len(truth)}|sentences:{len(sentences)}|column:{column}"
    counted += f"|unseen:{unseen}" if unseen else ""
    signature = f"{counted}|bs:1000|seed:12345|version:regard {version('regard')}"
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
    return Measured(scores=scores, confusion=table[:num_labels, :num_labels])


def _f1_interval(
    truth: np.ndarray, said: np.ndarray, sentence: np.ndarray, num_labels: int, resamples: int = 1000
) -> tuple[float, float]:
    """The 95 % interval of macro-F1; `sentence` says of each word which one it is of, from 0."""
    draw = np.random.Generator(np.random.PCG64(SEED))
    count, values = int(sentence.max()) + 1, np.empty(resamples)
    for number in range(resamples):
        times = np.bincount(draw.integers(0, count, count), minlength=count)[sentence]
        values[number] = macro_f1(_table(np.repeat(truth, times), np.repeat(said, times), num_labels))
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def hold(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test sentences; how many words have a label that the model does not know is said."""
    recipe = cast(TaggingRecipe, source.recipe)
    model = encoder_that("labels words", ("tokens",), loaded, allow_fresh=False)
    settings, base = held_settings(recipe.data, data, source.base)
    bank, column, tokenizer = Treebank(settings, base), recipe.data.column, loaded.tokenizers.source
    labels = LabelSet.of_model(loaded.labels, {})
    sentences = [_tagged(each, column, labels, str(bank.path)) for each in bank]
    if not sentences:
        raise DataError(f"{bank.path}: no sentence", "name another file")
    texts = _in_windows(sentences, tokenizer, tokenizer.encode_words, most_tokens(recipe, model.config))
    words = sum(len(each.words) for each in sentences)
    if unseen := _unseen(sentences, str(bank.path)):
        console.warn(f"{bank.path}: {unseen}; the table leaves them out")
    return HeldOutData(
        counted=f"{len(sentences):,} sentences, {words:,} words",
        measure=partial(
            _measured,
            texts=texts,
            num_labels=len(loaded.labels),
            pad_id=tokenizer.pad_id,
            column=column,
        ),
    )


def _in_windows(
    sentences: Sequence[Tagged], tokenizer: Tokenizer, encode: Encode, max_tokens: int
) -> list[EncodedText]:
    """Each sentence in windows of at most `max_tokens`."""
    pieces = lru_cache(REMEMBERED)(partial(encode_word, encode=encode, prefix=word_prefix(tokenizer)))
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
    """Read all sentences; they stay in memory."""
    recipe = cast(TaggingRecipe, source.recipe)
    data = recipe.data
    given = {"train": data.train, "valid": data.valid, "test": data.test}
    banks = {part: Treebank(settings, source.base) for part, settings in given.items() if settings}
    prints = {part: (bank.name, bank.fingerprint(data.column)) for part, bank in banks.items()}
    refuse_other_data(prints, folder)
    sentences = {part: list(bank) for part, bank in banks.items()}
    train = sentences["train"]
    name = str(banks["train"].path)
    labels = LabelSet.of((label for each in train for label in labels_of(each, data.column, name)), {})
    parts = {
        part: [_tagged(each, data.column, labels, str(banks[part].path)) for each in sentences[part]]
        for part in banks
    }
    if "valid" not in parts:
        kept, taken = split([0] * len(train), data.valid_share, recipe.training.seed)
        parts["valid"] = [parts["train"][number] for number in taken]
        parts["train"] = [parts["train"][number] for number in kept]
    for part, title in (("train", "training"), ("valid", "validation"), ("test", "test")):
        if part in parts:
            words = sum(len(each.words) for each in parts[part])
            if not parts[part]:
                raise DataError(f"data.{part} has no sentence", "look at the file and at data.valid_share")
            unseen = _unseen(parts[part], f"data.{part}")
            say(f"{title}: {len(parts[part]):,} sentences, {words:,} words{unseen and f'; {unseen}'}")
    tokenizer, files = stored_tokenizer(
        (word for each in parts["train"] for word in each.words), recipe.tokenizer, folder, say
    )
    if limit is not None:
        parts = {part: each[: limit if part == "train" else TRIAL] for part, each in parts.items()}
    return Tagging(recipe, labels.names, parts, tokenizer, files)


def _tagged(sentence: Sentence, column: Column, labels: LabelSet, name: str) -> Tagged:
    return Tagged(
        words=sentence.forms,
        labels=tuple(labels.numbers.get(label, IGNORED) for label in labels_of(sentence, column, name)),
        line=sentence.first_line,
    )


def _unseen(sentences: Sequence[Tagged], name: str) -> str:
    """How many words have a label that training has never seen, in words; empty if none has.

    Raises:
        DataError: all have; these are labels of another kind.
    """
    count = sum(each.labels.count(IGNORED) for each in sentences)
    if count == sum(len(each.labels) for each in sentences):
        raise DataError(f"{name}: no word has a label that training has seen", "look at data.column")
    return f"{count:,} words have a label that training has never seen, and count as wrong" if count else ""
