"""Tagging: a label for each word, such as its part of speech, learned from CoNLL-U files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from regard import console
from regard.data.batch import IGNORED
from regard.data.conllu import ConlluSettings, LabelColumn, Sentence, Treebank, labels_of
from regard.data.examples import Examples
from regard.data.labelled import LabelSet, split
from regard.data.tagged import encode_word, tagged_texts, word_prefix
from regard.data.texts import EncodedText
from regard.data.tokenizer import Tokenizer
from regard.data.word_columns import LABEL_COLUMN, read_words, word_format
from regard.errors import DataError, RecipeError
from regard.evaluation.entities import are_entity_labels
from regard.evaluation.score import Score
from regard.training.objective import LabelCrossEntropy, Objective
from regard.verbs.shared.load_encoder import encoder_that
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.tagging_scores import evaluate_tags, validation_scores
from regard.verbs.tasks.task import HeldOutData, Say, Task, settings_of_test_data
from regard.verbs.tasks.text import (
    Encode,
    TextRecipe,
    WordDropoutSettings,
    encoder_config,
    load_or_train_tokenizer,
    max_text_tokens,
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
class TaggingRecipe(TextRecipe):
    """Recipe of a tagger: data, tokeniser, model, training."""

    measured: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "entity_f1")
    task: TaggingSettings
    data: TaggedDataSettings


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
        return validation_scores(model, self._valid, self.labels, self.tokenizer.pad_id)

    def test(self, model: Any) -> list[Score]:
        if not self._test:
            return []
        column = self.recipe.data.column
        return evaluate_tags(model, self._test, self.labels, self.tokenizer.pad_id, column).scores


def _refuse_no_entities(recipe: TaggingRecipe, labels: Sequence[str]) -> None:
    if "entity_f1" in recipe.training.choosing and not are_entity_labels(labels):
        raise RecipeError(
            "training.best_metric is entity_f1, but the labels are not those of entities",
            "entities have labels such as B-PER, I-PER and O; choose accuracy or macro_f1 for others",
        )


def open_test_data(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test sentences; a warning counts the words whose label the model does not know."""
    recipe = cast(TaggingRecipe, source.recipe)
    model = encoder_that("labels words", ("tokens",), loaded, allow_fresh=False)
    settings, base = settings_of_test_data(recipe, loaded, data, source.base)
    path, tokenizer = Treebank(settings, base).path, loaded.tokenizers.source
    kind = (word_format(path) if data is not None else None) or "conllu"
    column = LABEL_COLUMN if kind == "columns" else recipe.data.column
    labels = LabelSet.of_model(loaded.labels, {})
    sentences = [_tagged(each, column, labels, str(path)) for each in read_words(path, kind)]
    if not sentences:
        raise DataError(f"{path}: no sentence", "name another file")
    texts = _in_windows(sentences, tokenizer, tokenizer.encode_words, max_text_tokens(recipe, model.config))
    words = sum(len(each.words) for each in sentences)
    if unseen := _unseen_labels(sentences, str(path)):
        console.warn(f"{path}: {unseen}; the confusion matrix leaves them out")
    return HeldOutData(
        size=f"{len(sentences):,} sentences, {words:,} words",
        evaluate=partial(
            evaluate_tags,
            texts=texts,
            names=loaded.labels,
            pad_id=tokenizer.pad_id,
            column="last" if column != recipe.data.column else column,
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
    _say_sizes(parts, say)
    tokenizer, files = load_or_train_tokenizer(
        (word for each in parts["train"] for word in each.words), recipe.tokenizer, folder, source.base, say
    )
    parts = {part: each[: examples_kept(part, limit)] for part, each in parts.items()}
    return Tagging(recipe, labels.names, parts, tokenizer, files)


def _say_sizes(parts: Mapping[str, Sequence[LabelledSentence]], say: Say) -> None:
    """Report the sentences and words of each part.

    Raises:
        DataError: a part has no sentence, or none of the training data's labels.
    """
    for part, title in PART_NAMES.items():
        if part in parts:
            if not parts[part]:
                raise DataError(f"data.{part} has no sentence", "look at the file and at data.valid_share")
            words = sum(len(each.words) for each in parts[part])
            unseen = _unseen_labels(parts[part], f"data.{part}")
            say(f"{title}: {len(parts[part]):,} sentences, {words:,} words{unseen and f'; {unseen}'}")


def _tagged(sentence: Sentence, column: LabelColumn, labels: LabelSet, name: str) -> LabelledSentence:
    return LabelledSentence(
        words=sentence.forms,
        labels=tuple(labels.numbers.get(label, IGNORED) for label in labels_of(sentence, column, name)),
        line=sentence.first_line,
    )


def _unseen_labels(sentences: Sequence[LabelledSentence], name: str) -> str:
    """How many words have a label that is not in the training data, as a sentence; empty if none has.

    Raises:
        DataError: no word has a label of the training data.
    """
    count = sum(each.labels.count(IGNORED) for each in sentences)
    if count == sum(len(each.labels) for each in sentences):
        raise DataError(f"{name}: no word has a label of the training data", "look at data.column")
    if not count:
        return ""
    return f"{count:,} words have a label that is not in the training data and count as wrong"
