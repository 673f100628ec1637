"""What a line of a corpus is that `regard data tokenize` reads: a pair, or a document."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from regard.data.corpus import Pair, problem_of
from regard.data.corpus_formats import Problem
from regard.data.pair_part import PairIds, PairWriter, tokenised_pairs
from regard.data.shards import Segmenter, segmenters
from regard.data.text_part import TextWriter
from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_training import train_tokenizer, train_tokenizers
from regard.errors import DataError, RecipeError
from regard.jobs.token_rows import CorpusWriter
from regard.verbs.tasks.language_model import LanguageModelRecipe
from regard.verbs.tasks.recipe import Recipe
from regard.verbs.tasks.translation import TranslationRecipe

ReadLines = Callable[[], Iterator[str]]  # reads lines, again each time


@runtime_checkable
class CorpusLines(Protocol):
    """The lines of a corpus, by the settings of a recipe.

    Attributes:
        columns: the columns of a table that hold such a line, in words.
    """

    columns: tuple[str, ...]

    def tokenizers(self, sample: ReadLines) -> TokenizerPair:
        """Tokenisers that are trained on these lines."""
        ...

    def tokenised(self, lines: Sequence[str], tokenizers: TokenizerPair) -> list[Any]:
        """The ids of each line, or why it is left out.

        Raises:
            DataError: a line cannot be used, and the recipe does not say that such lines are skipped.
        """
        ...

    def writer(self, tokenizers: TokenizerPair) -> CorpusWriter:
        """A part that is still empty."""
        ...


def corpus_lines(recipe: Recipe) -> CorpusLines:
    """The lines for a recipe.

    Raises:
        RecipeError: its task reads no such corpus.
    """
    if isinstance(recipe, TranslationRecipe):
        return PairLines(recipe)
    if isinstance(recipe, LanguageModelRecipe):
        return DocumentLines(recipe)
    raise RecipeError(
        f"{recipe.name}: a recipe of neither a translation nor a language model",
        "other tasks tokenise when they train",
    )


class PairLines:
    """A source and its target with a tab between."""

    columns: tuple[str, ...] = ("SOURCE", "TARGET")

    def __init__(self, recipe: TranslationRecipe) -> None:
        self._recipe = recipe
        self._segmenters: Sequence[tuple[Segmenter, Segmenter]] = ()

    def tokenizers(self, sample: ReadLines) -> TokenizerPair:
        if next(self._usable(sample()), None) is None:
            problem = next((row for line in sample() if isinstance(row := self._row(line), Problem)), None)
            raise DataError(
                f"the beginning of the input has no pair{f': {problem.message}' if problem else ''}",
                "a line is a source and its target with a tab between; of tables give --column SOURCE,TARGET",
            )
        return train_tokenizers(_Pairs(lambda: self._usable(sample())), self._recipe.tokenizer)

    def tokenised(self, lines: Sequence[str], tokenizers: TokenizerPair) -> list[list[PairIds] | str]:
        if not self._segmenters:
            chosen, seed = self._recipe.tokenizer, self._recipe.training.seed
            self._segmenters = segmenters(tokenizers, chosen.dropout, chosen.copies, seed)
        rows = [self._row(line) for line in lines]
        for row in rows:
            if isinstance(row, Problem) and getattr(self._recipe.data.lines, row.policy) == "error":
                raise DataError(row.message, f'data.lines.{row.policy} = "skip" counts such lines')
        usable = [row for row in rows if not isinstance(row, Problem)]
        found = iter(tokenised_pairs(self._segmenters, usable, self._recipe.batches.max_tokens))
        return [row.policy if isinstance(row, Problem) else next(found) for row in rows]

    def writer(self, tokenizers: TokenizerPair) -> PairWriter:
        return PairWriter(tokenizers, self._recipe.tokenizer.copies if self._recipe.tokenizer.dropout else 1)

    def _usable(self, lines: Iterator[str]) -> Iterator[Pair]:
        for number, line in enumerate(lines, start=1):
            row = self._row(line)
            if not isinstance(row, Problem):
                yield Pair(source=row[0], target=row[1], line=number)

    def _row(self, line: str) -> tuple[str, str] | Problem:
        """The source and the target of a line, or why it cannot be used."""
        cells = line.split("\t")
        if len(cells) != 2:
            message = f"{len(cells) - 1} tabs, not the one between a source and its target"
            return Problem("malformed", message)
        return problem_of(cells[0], cells[1], self._recipe.data.lines.max_characters) or (cells[0], cells[1])


@dataclasses.dataclass(frozen=True)
class _Pairs:
    """Pairs that are read again each time."""

    read: Callable[[], Iterator[Pair]]

    def __iter__(self) -> Iterator[Pair]:
        return self.read()


class DocumentLines:
    """A document; empty lines are left out."""

    columns: tuple[str, ...] = ("TEXT",)

    def __init__(self, recipe: LanguageModelRecipe) -> None:
        self._settings = recipe.tokenizer

    def tokenizers(self, sample: ReadLines) -> TokenizerPair:
        if next(filter(str.strip, sample()), None) is None:
            raise DataError("the beginning of the input has no document", "a line is a document")
        return TokenizerPair(*[train_tokenizer(sample(), self._settings.kind, self._settings)] * 2)

    def tokenised(self, lines: Sequence[str], tokenizers: TokenizerPair) -> list[list[int] | str]:
        found = iter(tokenizers.source.encode_batch([line for line in lines if line.strip()]))
        return [next(found) if line.strip() else "empty" for line in lines]

    def writer(self, tokenizers: TokenizerPair) -> TextWriter:
        return TextWriter(tokenizers.source)
