"""Decoding by a glossary: the terms that occur in a sentence are required of its translation."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from regard import console
from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.decoding.constrained import ConstrainedBeamSearch, NoRoom
from regard.decoding.control_fields import beam_of
from regard.decoding.controls import Controls
from regard.decoding.hypothesis import Constraint, Hypothesis
from regard.decoding.phrases import phrases
from regard.decoding.settings import GenerationSettings
from regard.errors import ConfigError
from regard.verbs.generation.controls import UNSET
from regard.verbs.generation.glossary import (
    Dictionary,
    RequiredText,
    missing_text,
    must_contain,
    occurring,
    read_glossary,
    required_texts,
)
from regard.verbs.generation.search_results import translation_search

BEAM = 5  # where the model's own search is not a beam
Decoded = Callable[[Sequence[int]], None]


@runtime_checkable
class SourceDecoder(Protocol):
    """What decodes sources."""

    def decode(
        self, sources: Sequence[list[int]], *, first_index: int = 0, decoded: Decoded | None = None
    ) -> list[list[Hypothesis]]: ...


@runtime_checkable
class RequiringDecoder(Protocol):
    """What decodes sources, each of which requires texts, such as a `PooledDecoder`."""

    def decode(
        self, sources: Sequence[list[int]], *, required: Sequence[tuple[Constraint, ...]]
    ) -> list[list[Hypothesis]]: ...


def requiring(own: GenerationSettings, controls: Controls, texts: Sequence[RequiredText]) -> Controls:
    """The controls for a translation that must have these texts, of a model with settings of its `own`."""
    beam = None if own.width > 1 and not own.samples else beam_of(max(BEAM, own.n_best))
    return controls.requiring((*controls.must_contain, *must_contain(texts)), beam)


def search_requiring(
    own: GenerationSettings, texts: Sequence[RequiredText], n_best: int, tokenizers: TokenizerPair
) -> ConstrainedBeamSearch:
    """The search for sentences of which each requires some texts such as these.

    `own`: the settings of the model, and what they require of all.

    Raises:
        ConfigError: the search of these settings takes no required texts.
    """
    own = own.with_(n_best=n_best)
    settings = own.changed(requiring(own, UNSET.with_(must_contain=own.must_contain), texts))
    search = translation_search(settings, tokenizers)
    if not isinstance(search, ConstrainedBeamSearch):
        raise ConfigError(
            f"search = {own.search!r} takes no texts that each sentence requires", "leave it or glossary out"
        )
    return dataclasses.replace(search, constraints=search.constraints[: len(own.must_contain)])


class GlossaryDecoder:
    """Decodes sentences, those with terms of a glossary by a search for these.

    A sentence without a term has the hypotheses that it has without a glossary.

    Args:
        file: the glossary.
        plain: decodes sentences without terms.
        requiring: what decodes sentences of which each requires some texts such as these.
        target: the tokeniser of the output.
        samples: whether what is decoded depends on its place.

    Raises:
        DataError: the file is not a glossary.
        ConfigError: the model has no tokens for a term, or the search takes no required texts.
    """

    def __init__(
        self,
        file: str | Path,
        plain: SourceDecoder,
        requiring: Callable[[Sequence[RequiredText]], RequiringDecoder],
        target: Tokenizer,
        *,
        samples: bool,
    ) -> None:
        self._file, self._plain = file, plain
        self._target, self._samples = target, samples
        self.dictionary = read_glossary(Path(file))
        self._constraints = _constraints(file, self.dictionary, target)
        self._requiring = requiring([next(iter(self._constraints))])

    def decode(
        self,
        pieces: Sequence[str],
        sources: Sequence[list[int]],
        numbers: Sequence[int],
        *,
        first_index: int = 0,
        decoded: Decoded | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source; `pieces` are their texts, `numbers` those of their lines.

        Where the search finds none with a term, a warning says so, and it is decoded without the glossary.
        """
        required = [required_texts(occurring(piece, [self.dictionary])) for piece in pieces]
        places = [place for place, texts in enumerate(required) if texts]
        answers = self._with(
            [required[place] for place in places],
            [sources[place] for place in places],
            [numbers[place] for place in places],
        )
        found = {place: each for place, each in zip(places, answers, strict=True) if each}
        if decoded is not None and found:
            decoded([*found])
        rest = [place for place in range(len(pieces)) if self._samples or place not in found]

        def of_rest(done: Sequence[int]) -> None:
            if decoded is not None:
                decoded([rest[place] for place in done if rest[place] not in found])

        plain = self._plain.decode(
            [sources[place] for place in rest], first_index=first_index, decoded=of_rest
        )
        found = dict(zip(rest, plain, strict=True)) | found
        return [found[place] for place in range(len(pieces))]

    def _with(
        self,
        required: Sequence[Sequence[RequiredText]],
        sources: Sequence[list[int]],
        numbers: Sequence[int],
    ) -> list[list[Hypothesis]]:
        """The hypotheses with the texts that each source requires; none where there is none."""
        constraints = [tuple(self._constraints[text] for text in texts) for texts in required]
        try:
            answers = self._requiring.decode(sources, required=constraints) if sources else []
        except NoRoom as error:
            raise ConfigError(
                f"glossary {self._file}, line {numbers[error.index]}: {error.message}", error.hint
            ) from None
        for place, (number, texts) in enumerate(zip(numbers, required, strict=True)):
            written = self._target.decode(answers[place][0].ids) if answers[place] else ""
            text = missing_text(written, texts)
            if text is not None:
                console.warn(f"line {number}: no translation with {text!r} was found, so that it has none")
                answers[place] = []
        return answers


def _constraints(
    file: str | Path, dictionary: Dictionary, target: Tokenizer
) -> dict[RequiredText, Constraint]:
    """The required texts of all entries as tokens; raises a ConfigError for one that has none."""
    texts = required_texts(dictionary.entries)
    found: dict[RequiredText, Constraint] = {}
    for text, forms in zip(texts, must_contain(texts), strict=True):
        try:
            found[text] = phrases(target, forms, "must_contain")
        except ConfigError as error:
            raise ConfigError(
                f"glossary {file}: the model has no tokens for {text[0]!r}", error.hint
            ) from None
    return found
