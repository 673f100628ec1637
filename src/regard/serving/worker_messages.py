"""The messages between the server and a worker."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.verbs.shared.answerer import AnswerSettings


@dataclass(frozen=True, kw_only=True)
class Submit:
    """To the worker: answer these pieces. See `Job`."""

    number: int
    settings: AnswerSettings
    pieces: Sequence[Any]
    places: Sequence[int]
    in_parts: bool
    deadline: float


@dataclass(frozen=True)
class Cancel:
    """To the worker: drop a request."""

    number: int


@dataclass(frozen=True)
class Answered:
    """From the worker: the answer to the piece at a place of a request."""

    number: int
    place: int
    answer: Any


@dataclass(frozen=True)
class Part:
    """From the worker: what has become known of a text."""

    number: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Ended:
    """From the worker: a request is answered, refused, or dropped. Each request ends once.

    Args:
        started: when its first piece was computed (time.monotonic()).
        queued: the requests that wait now.
        batches: rows and seconds of all batches since the last of these messages.
    """

    number: int
    error: Exception | None
    started: float | None
    queued: int
    batches: Sequence[tuple[int, float]]
