"""What tasks over labelled texts share: reading them, the validation split, examples for an encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from regard.data.corpus import Corpus, LinePolicy, Pair
from regard.data.examples import Examples
from regard.data.labelled import LabelledSettings, open_labelled, split
from regard.data.texts import EncodedText, encoded_text
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_training import WITHOUT_WORDS
from regard.errors import DataError, RecipeError
from regard.verbs.tasks.recipe import Recipe
from regard.verbs.tasks.task import Say, Task
from regard.verbs.tasks.text import Encode, max_text_tokens, training_examples
from regard.verbs.tasks.validation_split import (
    PART_NAMES,
    OptionalValidation,
    examples_kept,
    settings_by_part,
)
from regard.verbs.training_run.data_checks import counts_of_skipped, refuse_other_data


@dataclass(frozen=True, kw_only=True)
class LabelledPart:
    """The texts of one part (training, validation, test), and the class or the number of each."""

    pairs: Sequence[Pair]
    labels: Sequence[int] | Sequence[float]

    def select(self, numbers: Sequence[int]) -> "LabelledPart":
        """The texts with these numbers, counted from 0."""
        return LabelledPart(pairs=[self.pairs[i] for i in numbers], labels=[self.labels[i] for i in numbers])

    def joined(self, other: "LabelledPart") -> "LabelledPart":
        """These texts, and those of `other`."""
        return LabelledPart(pairs=[*self.pairs, *other.pairs], labels=[*self.labels, *other.labels])

    def first(self, count: int | None) -> "LabelledPart":
        """The first texts; all if `count` is None."""
        return LabelledPart(pairs=self.pairs[:count], labels=self.labels[:count])

    def texts(self, encode: Encode, tokenizer: Tokenizer, max_tokens: int) -> list[EncodedText]:
        """The texts as ids; a text that is too long is cut at its end."""
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


class LabelledTextTask(Task):
    """A task over texts with one label each, by an encoder; subclasses set `config`, loss and metrics."""

    use = 'regard classify --model . "..."'
    unit = "texts"

    def __init__(
        self,
        recipe: Recipe,
        config: Any,
        parts: Mapping[str, LabelledPart],
        tokenizer: Tokenizer,
        files: Mapping[str, bytes],
    ) -> None:
        self.recipe: Any = recipe
        self.config, self.tokenizer, self.files = config, tokenizer, files
        self._parts, self._max_tokens = parts, max_text_tokens(recipe, config)
        self._valid, self._test = (self._texts(part, tokenizer.encode_words) for part in ("valid", "test"))
        self.has_validation = bool(self._valid)

    def _texts(self, part: str, encode: Encode) -> list[EncodedText]:
        if part not in self._parts:
            return []
        return self._parts[part].texts(encode, self.tokenizer, self._max_tokens)

    def examples(self) -> Examples:
        word_dropout, kind = self.recipe.task.word_dropout, self.recipe.tokenizer.kind
        if word_dropout and kind in WITHOUT_WORDS:
            raise RecipeError(
                f"task.word_dropout = {word_dropout}, but for tokenizer.kind = {kind!r} a text is one word",
                "give task.word_dropout = 0, or another tokenizer.kind",
            )
        return training_examples(
            partial(self._texts, "train"),
            self.tokenizer,
            self.recipe.tokenizer,
            word_dropout=word_dropout,
            seed=self.recipe.training.seed,
        )


def open_parts(data: Any, base: Path, folder: Path, *, classes: bool = False) -> dict[str, Corpus]:
    """The corpora of a recipe's `[data]`, by part; `classes`: their labels name classes.

    Raises:
        FolderError: a corpus has changed since `folder` was made.
    """
    corpora = {
        part: open_labelled(settings, data.lines, base, classes=classes)
        for part, settings in settings_by_part(data).items()
    }
    refuse_other_data({part: (each.name, each.fingerprint()) for part, each in corpora.items()}, folder)
    return corpora


def read_test_pairs(
    settings: LabelledSettings, policy: LinePolicy, base: Path, *, classes: bool = False
) -> tuple[Corpus, list[Pair]]:
    """The corpus of the test data, and its texts.

    Raises:
        DataError: no text is left.
    """
    corpus = open_labelled(settings, policy, base, classes=classes)
    pairs = list(corpus)
    if not pairs:
        raise DataError(f"{corpus.name}: no text is left", "look at data.lines of the recipe")
    return corpus, pairs


def separate_validation(
    parts: dict[str, LabelledPart],
    groups: Sequence[object],
    settings: OptionalValidation,
    seed: int,
    say: Say,
) -> None:
    """Move a share of each group of the training texts to "valid", unless `parts` has it.

    With `settings.train_on_valid` the texts of "valid" become training texts instead.

    Raises:
        DataError: there is no text to validate on.
    """
    if settings.train_on_valid:
        if "valid" in parts:
            parts["train"] = parts["train"].joined(parts.pop("valid"))
        say(f"validation: none in this run; all {len(parts['train'].pairs):,} texts are trained on")
        return
    if "valid" not in parts:
        kept, held_out = split(groups, settings.valid_share, seed)
        parts["valid"], parts["train"] = parts["train"].select(held_out), parts["train"].select(kept)
        say(f"validation: {len(held_out):,} of the training texts, a share of each class")
    if not parts["valid"].pairs:
        raise DataError("no text is left to validate on", "look at data.valid and data.valid_share")


def print_sizes(parts: Mapping[str, LabelledPart], corpora: Mapping[str, Corpus], say: Say) -> None:
    """Print how many texts each part has, and how many lines were left out."""
    for part, name in PART_NAMES.items():
        if part in parts:
            skipped = counts_of_skipped(corpora[part].skipped)
            say(f"{name}: {len(parts[part].pairs):,} texts{skipped}")


def parts_kept(parts: Mapping[str, LabelledPart], limit: int | None) -> dict[str, LabelledPart]:
    """The texts that a dry run of `limit` training texts keeps; all without a limit."""
    return {part: each.first(examples_kept(part, limit)) for part, each in parts.items()}
