"""Splitting a text into sentences that are translated one by one, and joining their translations."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from regard import console
from regard.data.sentences import split_lines, split_sentences
from regard.decoding.controls import Controls
from regard.errors import ConfigError
from regard.verbs.shared.text_options import SplitMode

WHOLE_LINE_CONTROLS = ("must_contain", "stop")  # controls that apply to a whole line, not to each sentence


class Splitter:
    """Splits a text or a line of a file into pieces, which joined are the text.

    "on" splits into sentences, "off" does not; "auto" splits every text, and the lines of files for which
    `is_long` is true: a model translates best what it was trained on, whole lines. The lines of a text are
    always pieces of their own. With a control of WHOLE lines are not split, with one warning.
    """

    def __init__(
        self, split: str, controls: Controls, is_long: Callable[[Sequence[str]], list[bool]]
    ) -> None:
        if split not in get_args(SplitMode):
            raise ConfigError(
                f"split = {split!r} is not one of {', '.join(get_args(SplitMode))}", "split = 'auto'"
            )
        self.split, self.is_long = split, is_long
        self.whole = next((name for name in WHOLE_LINE_CONTROLS if controls.is_set(name)), "")
        if self.whole and split == "on":
            raise ConfigError(
                f"{self.whole} = {getattr(controls, self.whole)} and split = 'on' do not go together:"
                f" {self.whole} is of a whole line",
                "leave one of them out",
            )
        self._warned = False

    def texts(self, texts: Sequence[str]) -> list[list[str]]:
        """The pieces of each text."""
        if self.split == "off":
            return [split_lines(text) for text in texts]
        pieces = [split_sentences(text) for text in texts]
        if not self.whole:
            return pieces
        lines = [split_lines(text) for text in texts]
        self._warn_whole(any(len(one) > len(other) for one, other in zip(pieces, lines, strict=True)))
        return lines

    def lines(self, lines: Sequence[str]) -> list[list[str]]:
        """The pieces of each line of a file."""
        if self.split == "off":
            return [[line] for line in lines]
        pieces = [split_sentences(line) for line in lines]
        several = [place for place, each in enumerate(pieces) if len(each) > 1]
        if self.split == "auto":
            long = self.is_long([lines[place] for place in several])
            several = [place for place, is_long in zip(several, long, strict=True) if is_long]
        if self.whole:
            self._warn_whole(bool(several))
            several = []
        chosen = set(several)
        return [each if place in chosen else [lines[place]] for place, each in enumerate(pieces)]

    def _warn_whole(self, several: bool) -> None:
        if several and not self._warned:
            console.note(f"lines are not split into sentences, for {self.whole} is of a whole line")
            self._warned = True


@dataclass(frozen=True, kw_only=True)
class WholeTexts:
    """Leaves every text and line whole: a text is a document."""

    def texts(self, texts: Sequence[str]) -> list[list[str]]:
        return [[text] for text in texts]

    lines = texts


def edges(text: str) -> tuple[str, str]:
    """The white space at the start and at the end of a text; if the text is nothing else, all of it once."""
    start = len(text) - len(text.lstrip())
    return text[:start], text[max(start, len(text.rstrip())) :]


def joined(pieces: Sequence[str], translations: Sequence[str]) -> str:
    """The translations, joined by the white space between the pieces.

    Where pieces touch, as in Chinese, a space parts translations of scripts that have spaces.
    """
    text, space = "", None
    for piece, translation in zip(pieces, translations, strict=True):
        before = piece[: len(piece) - len(piece.lstrip())]
        if space is not None:
            space += before
            text += " " if not space and _touches(text, translation) else space
        text += translation
        space = piece[len(piece.rstrip()) :]
    return text


def _touches(text: str, more: str) -> bool:
    """True if a space is missing between two sentences."""
    if not text or not more or text[-1].isspace():
        return False
    return not any(unicodedata.east_asian_width(each) in "WF" for each in (text[-1], more[0]))
