"""A text as it is generated: in whole characters, and up to the first stop text."""

from collections.abc import Iterable, Iterator, Sequence

from regard.data.tokenizer import Tokenizer
from regard.decoding.phrases import WINDOW, partial_stop, up_to

INCOMPLETE = "\ufffd"  # decoded bytes that are not (yet) a character


class CharacterStream:
    """The text of tokens that come one by one, in whole characters, as soon as it is known.

    A character of several tokens comes with the last of them; an incomplete one is left out.
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int]) -> None:
        """`before`: the tokens that the text follows."""
        self._tokenizer = tokenizer
        self._context, self._waiting = list(before[-WINDOW:]), list[int]()
        self._shown = tokenizer.decode(self._context)

    def push(self, token: int) -> str:
        """What is known by the next token; it may be nothing."""
        self._waiting.append(token)
        text = self._tokenizer.decode(self._context + self._waiting)
        if text.endswith(INCOMPLETE):
            return ""
        new = text[len(self._shown) :]
        self._context, self._waiting = (self._context + self._waiting)[-WINDOW:], []
        self._shown = self._tokenizer.decode(self._context)
        return new


class UpToStop:
    """A text that comes in pieces, up to the first stop text; what may begin one is held back."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops, self._waiting, self.stopped = stops, "", False

    def push(self, piece: str) -> str:
        """What surely comes before a stop text."""
        self._waiting += piece
        text = up_to(self._waiting, self._stops)
        if text != self._waiting:
            self.stopped, self._waiting = True, ""
            return text
        ready = len(self._waiting) - partial_stop(self._waiting, self._stops)
        text, self._waiting = self._waiting[:ready], self._waiting[ready:]
        return text

    def end(self) -> str:
        """What was held back, if the text ends here."""
        text, self._waiting = self._waiting, ""
        return text


def in_characters(tokenizer: Tokenizer, before: Sequence[int], ids: Iterable[int]) -> Iterator[str]:
    """The text of `ids`, which follow the tokens `before`, by a `CharacterStream`."""
    stream = CharacterStream(tokenizer, before)
    for token in ids:
        if text := stream.push(token):
            yield text


def before_stop(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """Pieces of a text as they come, by `UpToStop`."""
    text = UpToStop(stops)
    for piece in pieces:
        if ready := text.push(piece):
            yield ready
        if text.stopped:
            return
    if rest := text.end():
        yield rest
