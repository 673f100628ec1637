"""Texts of many requests that are decoded together: each joins and leaves at a step of its own.

A text's answer is that of the text alone, to the bit (`decoding/running_batch.py`).
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from regard.decoding.hypothesis import Hypothesis
from regard.decoding.running_batch import RunningBatch

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")


class RunningAnswers(Generic[Piece, Answer]):
    """A running batch from pieces of text to answers. It is true while a piece is unanswered.

    Not for several threads at once.
    """

    def __init__(
        self,
        batch: RunningBatch,
        queue: Callable[[Piece, int], int],
        answer: Callable[[Piece, Sequence[Hypothesis]], Answer],
    ) -> None:
        """`queue` adds a piece, which has a place in its request, to `batch`; it returns the ticket."""
        self._batch, self._queue, self._answer = batch, queue, answer
        self._pieces: dict[int, Piece] = {}

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

    def add(self, piece: Piece, place: int) -> int:
        """Let a piece join at one of the next steps; a sample depends on its place.

        Returns:
            A ticket.

        Raises:
            DataError: the model cannot read it.
        """
        ticket = self._queue(piece, place)
        self._pieces[ticket] = piece
        return ticket

    def cancel(self, ticket: int) -> None:
        """Drop a piece; nothing happens if it is answered."""
        if self._pieces.pop(ticket, None) is not None:
            self._batch.cancel(ticket)

    def step(self) -> list[tuple[int, Answer | Exception]]:
        """Advance each piece by a token; the tickets of those that are done, with the answer or the error."""
        done: list[tuple[int, Answer | Exception]] = []
        for ticket, hypotheses in self._batch.step():
            if (piece := self._pieces.pop(ticket, None)) is not None:
                done.append((ticket, self._answer(piece, hypotheses)))
        for ticket, error in self._batch.refused():
            if self._pieces.pop(ticket, None) is not None:
                done.append((ticket, error))
        return done
