"""A request to a model as the scheduler knows it: pieces of text, and whom to tell their answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.verbs.shared.answerer import Answerer, DecodingAnswerer

MANY_PIECES = 16


@dataclass(eq=False, kw_only=True)
class Job:
    """A request, or a part of it: its pieces, and what to call when they are answered.

    `answered(place, answer)` is called for each piece, `finished(error)` once. Both are called by one
    thread, the scheduler's or that which reads from a worker. With `in_parts`, which is for one piece,
    `part(text)` is called too, with what has become known of its text.

    Args:
        places: those of the pieces in the request; by default they are all of it.
    """

    answerer: Answerer[Any, Any]
    pieces: Sequence[Any]
    places: Sequence[int] = ()
    finished: Callable[[Exception | None], None]
    answered: Callable[[int, Any], None] = lambda place, answer: None
    in_parts: bool = False
    part: Callable[[str], None] = lambda text: None
    deadline: float = float("inf")  # of time.monotonic()
    next: int = 0  # the first piece that is not in a batch yet
    left: int = field(init=False)
    sizes: list[int] = field(init=False)
    size: int = field(init=False)  # the work that is not begun, in characters
    cancelled: bool = False
    shares: Sequence["Job"] = ()  # the jobs that answer it, if several workers do
    started: float | None = None
    no_room_since: float | None = None  # its next piece needs more tokens than are left since then

    def __post_init__(self) -> None:
        self.places = self.places or range(len(self.pieces))
        self.left = len(self.pieces)
        self.sizes = [self.answerer.size(piece) for piece in self.pieces]
        self.size = sum(self.sizes)

    @property
    def decoded(self) -> bool:
        """True if its pieces are decoded a token at a time, False if they are computed in batches."""
        return isinstance(self.answerer, DecodingAnswerer)

    @property
    def is_long(self) -> bool:
        """True if it has many pieces, whose steps together would delay those of other jobs."""
        return len(self.pieces) > MANY_PIECES

    def most_tokens(self, number: int) -> int:
        """How many tokens the piece of this number can come to have, of all hypotheses."""
        return (
            self.answerer.most_tokens(self.pieces[number])
            if isinstance(self.answerer, DecodingAnswerer)
            else 0
        )

    def take(self) -> int:
        """The number of the next piece, which is now in a batch."""
        number = self.next
        self.size -= self.sizes[number]
        self.next += 1
        return number
