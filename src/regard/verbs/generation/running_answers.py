"""Texts of many requests that are decoded together: each joins and leaves at a step of its own.

A text's answer is that of the text alone, to the bit (`decoding/running_batch.py`).
"""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar, runtime_checkable

from regard.decoding.base_search import Search
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.rows import TakenToken
from regard.decoding.running_batch import RunningBatch
from regard.errors import ConfigError
from regard.verbs.generation.scored_tokens import ScoredText, ScoredToken, TextWithTokens, scored_tokens
from regard.verbs.generation.text_parts import CharacterStream, UpToStop

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")


@runtime_checkable
class AnsweredText(ScoredText, Protocol):
    """A text with its tokens."""

    @property
    def text(self) -> str: ...


def width_of(strategy: Search) -> int:
    """How many hypotheses a text has at a time."""
    return max(getattr(strategy, "size", 1), strategy.n_best)


class TextReader(Generic[Answer]):
    """The text of an answer, in parts as its tokens are generated."""

    def __init__(
        self,
        characters: CharacterStream,
        up_to_stop: UpToStop,
        text_of: Callable[[Answer], AnsweredText],
        scored: Callable[[Sequence[TakenToken]], Sequence[ScoredToken]] | None = None,
    ) -> None:
        """`text_of`: the text of the answer when it is known. With `scored` parts have their tokens."""
        self._characters, self._up_to_stop = characters, up_to_stop
        self._text_of, self._scored = text_of, scored
        self._read = self._sent = 0  # tokens; characters

    def next(self, batch: RunningBatch, ticket: int) -> str:
        """What is known by all tokens so far, and was not known before."""
        begin = self._read
        text = self.read(ids[0]) if (ids := batch.generated(ticket)) else ""
        if self._scored is None or self._read == begin:
            return text
        return TextWithTokens(text, self._scored(batch.taken(ticket, begin)))

    def read(self, ids: Sequence[int]) -> str:
        """The text that is known by all tokens so far, and was not known before."""
        new = "".join(map(self._characters.push, ids[self._read :]))
        self._read = max(self._read, len(ids))
        text = "" if self._up_to_stop.stopped else self._up_to_stop.push(new)
        self._sent += len(text)
        return text

    def rest(self, answer: Answer) -> str:
        """What was not known before the end."""
        found = self._text_of(answer)
        text = found.text[self._sent :]
        return text if self._scored is None else TextWithTokens(text, scored_tokens(found)[self._read :])


class RunningAnswers(Generic[Piece, Answer]):
    """A running batch from pieces of text to answers. It is true while a piece is unanswered.

    Not for several threads at once.
    """

    def __init__(
        self,
        batch: RunningBatch,
        queue: Callable[[Piece, int], int],
        answer: Callable[[Piece, Sequence[Hypothesis]], Answer],
        reader: Callable[[Piece], TextReader[Answer]] | None = None,
    ) -> None:
        """`queue` adds a piece, which has a place in its request, to `batch`; it returns the ticket.

        `reader` reads the text of a piece in parts; None if it is known at the end only.
        """
        self._batch, self._queue, self._answer, self._reader = batch, queue, answer, reader
        self._pieces: dict[int, Piece] = {}
        self._readers: dict[int, TextReader[Answer]] = {}
        self.parts: list[tuple[int, str]] = []  # of texts in parts: what became known by the last step

    def __bool__(self) -> bool:
        return bool(self._pieces)

    @property
    def rows(self) -> int:
        """The unfinished hypotheses of all pieces that have joined."""
        return self._batch.rows

    @property
    def tokens(self) -> int:
        """The tokens of all pieces, also of waiting ones: what memory grows with."""
        return self._batch.tokens

    def add(self, piece: Piece, place: int, *, in_parts: bool = False) -> int:
        """Let a piece join at one of the next steps; a sample depends on its place.

        Returns:
            A ticket.

        Raises:
            DataError: the model cannot read it. ConfigError: its text is not known in parts.
        """
        reader = self._reader_of(piece) if in_parts else None
        ticket = self._queue(piece, place)
        self._pieces[ticket] = piece
        if reader is not None:
            self._readers[ticket] = reader
        return ticket

    def _reader_of(self, piece: Piece) -> TextReader[Answer]:
        if self._reader is None:
            raise ConfigError("this task has no answer in parts", "leave out stream")
        return self._reader(piece)

    def cancel(self, ticket: int) -> None:
        """Drop a piece; nothing happens if it is answered."""
        self._readers.pop(ticket, None)
        if self._pieces.pop(ticket, None) is not None:
            self._batch.cancel(ticket)

    def step(self) -> list[tuple[int, Answer | Exception]]:
        """Advance each piece by a token; the tickets of those that are done, with the answer or the error."""
        done: list[tuple[int, Answer | Exception]] = []
        self.parts = []
        for ticket, hypotheses in self._batch.step():
            if ticket in self._pieces:
                done.append((ticket, self._answer(self._pieces.pop(ticket), hypotheses)))
        for ticket, error in self._batch.refused():
            if ticket in self._pieces:
                del self._pieces[ticket]
                done.append((ticket, error))
        for ticket, answer in done:
            reader = self._readers.pop(ticket, None)
            if reader is not None and not isinstance(answer, Exception):
                self._part(ticket, reader.rest(answer))
        for ticket, reader in self._readers.items():
            self._part(ticket, reader.next(self._batch, ticket))
        return done

    def _part(self, ticket: int, text: str) -> None:
        if text or (isinstance(text, TextWithTokens) and text.tokens):
            self.parts.append((ticket, text))
