"""Decoding by a glossary: the terms that occur in a sentence are required of its translation."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from regard import console
from regard.data.tokenizer import Tokenizer
from regard.decoding.control_fields import beam_of
from regard.decoding.controls import Controls
from regard.decoding.hypothesis import Hypothesis
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

BEAM = 5  # where the model's own search is not a beam
Decoded = Callable[[Sequence[int]], None]


@runtime_checkable
class SourceDecoder(Protocol):
    """What decodes sources, such as a `PooledDecoder`."""

    def decode(
        self, sources: Sequence[list[int]], *, first_index: int = 0, decoded: Decoded | None = None
    ) -> list[list[Hypothesis]]: ...


def requiring(own: GenerationSettings, controls: Controls, texts: Sequence[RequiredText]) -> Controls:
    """The controls for a translation that must have these texts, of a model with settings of its `own`."""
    beam = None if own.width > 1 and not own.samples else beam_of(max(BEAM, own.n_best))
    return controls.requiring((*controls.must_contain, *must_contain(texts)), beam)


def settings_requiring(
    own: GenerationSettings, texts: Sequence[RequiredText], n_best: int
) -> GenerationSettings:
    """The settings for a translation that must have these texts, and those that they require already."""
    own = own.with_(n_best=n_best)
    return own.changed(requiring(own, UNSET.with_(must_contain=own.must_contain), texts))


class GlossaryDecoder:
    """Decodes sentences, of which those with the same terms of a glossary together.

    A sentence without a term has the hypotheses that it has without a glossary.

    Args:
        file: the glossary.
        plain: decodes sentences without terms.
        requiring: what decodes sentences whose translations must have these texts.
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
        requiring: Callable[[Sequence[RequiredText]], SourceDecoder],
        target: Tokenizer,
        *,
        samples: bool,
    ) -> None:
        self._file, self._plain, self._requiring = file, plain, requiring
        self._target, self._samples = target, samples
        self.dictionary = read_glossary(Path(file))
        _refuse_unknown(file, self.dictionary, target)
        requiring(required_texts(dict([next(iter(self.dictionary.entries.items()))])))

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
        found: dict[int, list[Hypothesis]] = {}
        for texts in dict.fromkeys(filter(None, required)):
            places = [place for place, each in enumerate(required) if each == texts]
            its_numbers = [numbers[place] for place in places]
            answers = self._with(texts, [sources[place] for place in places], its_numbers)
            some = {place: each for place, each in zip(places, answers, strict=True) if each}
            found |= some
            if decoded is not None:
                decoded([*some])
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
        self, texts: Sequence[RequiredText], sources: Sequence[list[int]], numbers: Sequence[int]
    ) -> list[list[Hypothesis]]:
        """The hypotheses with these texts; none of a source for which there is none."""
        try:
            answers = self._requiring(texts).decode(sources)
        except ConfigError as error:
            raise ConfigError(
                f"glossary {self._file}, line {numbers[0]}: {error.message}", error.hint
            ) from None
        for place, (number, answer) in enumerate(zip(numbers, answers, strict=True)):
            text = missing_text(self._target.decode(answer[0].ids) if answer else "", texts)
            if text is not None:
                console.warn(f"line {number}: no translation with {text!r} was found, so that it has none")
                answers[place] = []
        return answers


def _refuse_unknown(file: str | Path, dictionary: Dictionary, target: Tokenizer) -> None:
    """Raise a ConfigError for a term that the model has no tokens for."""
    for text in must_contain(required_texts(dictionary.entries)):
        try:
            phrases(target, text, "must_contain")
        except ConfigError as error:
            raise ConfigError(
                f"glossary {file}: the model has no tokens for {text.partition('|')[0]!r}", error.hint
            ) from None
