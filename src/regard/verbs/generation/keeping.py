"""Translating pieces of which some parts stay as they are (`kept_texts.py`)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from regard.data.tokenizer import TokenizerPair
from regard.decoding.controls import Controls
from regard.documents.placeholders import PLACEHOLDER
from regard.errors import ConfigError
from regard.verbs.generation.alignments import TokenAlignment
from regard.verbs.generation.candidates import TranslationCandidate, as_one
from regard.verbs.generation.kept_texts import (
    PLACEHOLDERS,
    HiddenText,
    TextHider,
    has_words,
    patterns_of,
)
from regard.verbs.generation.translations import Translation
from regard.verbs.shared.sentence_splitting import WHOLE_LINE_CONTROLS, edges


@runtime_checkable
class PieceTranslator(Protocol):
    """Translates pieces, which are not split; `numbers` are those of their lines.

    A sample depends on its place, which is counted from `first_index`. `done` is called with the number of
    lines of each finished batch.
    """

    def __call__(
        self,
        pieces: Sequence[str],
        numbers: Sequence[int],
        *,
        first_index: int = 0,
        done: Callable[[int], None] | None = None,
        alignments: bool = False,
    ) -> list[Translation]: ...


class KeepingTranslator:
    """Translates pieces; each text that is kept is in the translation once, as it was.

    A piece is translated with stand-ins. If no candidate has each of them once, the parts between the kept
    texts are translated, one by one. A piece without such a text has the translation that it has otherwise.

    Args:
        translate: what translates pieces.
        samples: whether a translation depends on its place.
    """

    def __init__(self, hider: TextHider, translate: PieceTranslator, *, samples: bool) -> None:
        self._hider, self._translate, self._samples = hider, translate, samples

    def __call__(
        self,
        pieces: Sequence[str],
        numbers: Sequence[int],
        *,
        first_index: int = 0,
        done: Callable[[int], None] | None = None,
        alignments: bool = False,
    ) -> list[Translation]:
        hidden = [self._hider.hidden(piece) for piece in pieces]
        texts = [each.text if each.stands_in else "" for each in hidden]
        found = self._translate(texts, numbers, first_index=first_index, done=done, alignments=alignments)
        restored = [restored_translation(*each) for each in zip(hidden, found, strict=True)]
        places = [place for place, each in enumerate(restored) if each is None]
        groups = [[place] for place in places] if self._samples else [places]
        for group in filter(None, groups):
            first = first_index + group[0]
            some = self._in_parts(
                [hidden[place] for place in group],
                [found[place] for place in group],
                first_index=first,
                alignments=alignments,
            )
            for place, each in zip(group, some, strict=True):
                restored[place] = each
        return [each for each in restored if each is not None]

    def _in_parts(
        self,
        hidden: Sequence[HiddenText],
        answers: Sequence[Translation],
        *,
        first_index: int,
        alignments: bool,
    ) -> list[Translation]:
        """The translations of pieces, whose parts are translated one by one; `answers` have their lines."""
        parts = [each.parts() for each in hidden]
        flat = [part for each in parts for part in each]
        numbers = [answer.line for answer, each in zip(answers, parts, strict=True) for _ in each]
        found = iter(self._translate(flat, numbers, first_index=first_index, alignments=alignments))
        return [
            joined_translation(each, answer, [next(found) for _ in own])
            for each, answer, own in zip(hidden, answers, parts, strict=True)
        ]


def text_hiders(
    keep: Sequence[str], settings: Controls, tokenizers: TokenizerPair
) -> tuple[TextHider | None, TextHider | None]:
    """What hides what is kept in lines, and in documents, in which placeholders are kept by default.

    What a document itself has a placeholder for is always kept; with a control of a whole line nothing is.

    Raises:
        ConfigError: a pattern is wrong, or a control is of a whole line.
    """
    whole = next((name for name in WHOLE_LINE_CONTROLS if settings.is_set(name)), None)
    if patterns_of(keep) and whole is not None:
        raise ConfigError(
            f"keep = {tuple(keep)} and {whole} = {getattr(settings, whole)} do not go together: {whole} is of"
            " a whole line, and parts of it may be translated one by one",
            "leave one of them out",
        )

    def hider(patterns: Sequence[str]) -> TextHider | None:
        return TextHider(patterns, tokenizers.source, tokenizers.target) if patterns else None

    if whole is not None:
        return None, None
    of_documents = (PLACEHOLDER, *patterns_of(keep, default=(PLACEHOLDERS,)))
    return hider(patterns_of(keep)), hider(of_documents)


def restored_translation(hidden: HiddenText, translation: Translation) -> Translation | None:
    """The translation with what is kept, of the candidates that have it once; None if there are none."""
    if not hidden.kept:
        return translation
    if not hidden.text:
        candidate = replace(translation.candidates[0], text=hidden.source.strip())
        return replace(translation, source=hidden.source, candidates=(candidate,))
    if not hidden.stands_in:
        return None
    source = hidden.moved()
    candidates = [
        replace(
            each, text=restored[0], alignment=each.alignment and each.alignment.moved(restored[1], source)
        )
        for each in translation.candidates
        if (restored := hidden.restored(each.text)) is not None
    ]
    if not candidates:
        return None
    return replace(translation, source=hidden.source, candidates=tuple(candidates))


def joined_translation(hidden: HiddenText, answer: Translation, found: Sequence[Translation]) -> Translation:
    """The best translations of the parts of a piece, with what is kept; `answer` has its line."""
    parts = [*hidden.others()]
    texts = [_framed(part, each.text) for part, each in zip(parts, found, strict=True)]
    kept = [each.text for each in hidden.kept]
    text = texts[0] + "".join(one + other for one, other in zip(kept, texts[1:], strict=True))
    best = [each.candidates[0] for each in found]
    candidate = replace(
        as_one(text.strip(), [each for each in best if each.tokens] or best),
        parts=(),
        token_log_probs=tuple(value for each in best for value in each.log_probs_of_tokens),
        alignment=_joined_alignment(hidden.source, parts, texts, kept, best, len(text) - len(text.lstrip())),
    )
    return replace(answer, source=hidden.source, candidates=(candidate,))


def _joined_alignment(
    source: str,
    parts: Sequence[str],
    texts: Sequence[str],
    kept: Sequence[str],
    best: Sequence[TranslationCandidate],
    before: int,
) -> TokenAlignment | None:
    """The alignments of the parts as one of the piece; `before`: white space before its translation."""
    places = [*_places(parts, kept, len(source) - len(source.lstrip()))], [*_places(texts, kept, before)]
    tokens: list[str] = []
    links: list[tuple[int, int]] = []
    spans: tuple[list[tuple[int, int]], list[tuple[int, int]]] = [], []
    for part, text, each, *begins in zip(parts, texts, best, *places, strict=True):
        own = each.alignment
        if own is None:
            return None
        links += [(len(tokens) + one, len(spans[1]) + other) for one, other in own.links]
        tokens += own.source_tokens
        for found, place, written, its in zip(
            spans, begins, (part, text), (own.source_spans, own.target_spans), strict=True
        ):
            place += len(written) - len(written.lstrip())
            found += [(begin + place, end + place) for begin, end in its]
    return TokenAlignment(
        source_tokens=tuple(tokens),
        links=tuple(links),
        source_spans=tuple(spans[0]),
        target_spans=tuple(spans[1]),
    )


def _places(parts: Sequence[str], kept: Sequence[str], before: int) -> Iterator[int]:
    """Where each part begins, after so much white space that is left out."""
    place = -before
    for number, part in enumerate(parts):
        yield place
        place += len(part) + (len(kept[number]) if number < len(kept) else 0)


def _framed(part: str, translation: str) -> str:
    """The translation of a part between its white space; a part without words stays as it is."""
    if not has_words(part):
        return part
    before, after = edges(part)
    return before + translation + after
