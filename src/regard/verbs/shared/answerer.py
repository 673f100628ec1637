"""How a model answers texts, recordings and pairs of texts: in pieces, each computed alone.

Several requests may be computed together, where their settings are equal (`verbs/serve.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from jaxtyping import Float

from regard.verbs.generation.controls import UNSET, Controls
from regard.verbs.generation.running_answers import RunningAnswers
from regard.verbs.shared.text_options import SpeechOptions, SplitMode

Task = Literal["translate", "generate", "embed", "classify", "score", "transcribe"]
Piece = TypeVar("Piece")
Answer = TypeVar("Answer")
ANY_SPEECH = SpeechOptions()  # in the language that the model detects, or its settings name


@dataclass(frozen=True, kw_only=True)
class AnswerSettings:
    """How texts are answered; `count`: candidates of a translation, texts of a prompt, or classes.

    The texts of a `chat` are those that `ServedModel.rendered` gives.
    """

    task: Task
    controls: Controls = UNSET
    count: int = 1
    prefix: str | None = None
    split: SplitMode = "auto"
    chat: bool = False
    alignments: bool = False  # of the candidates of a translation
    speech: SpeechOptions = ANY_SPEECH


@dataclass(frozen=True, eq=False)
class Recording:
    """The samples of one channel, and how many a second has."""

    samples: Float[np.ndarray, " samples"]
    rate: int

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate


class Answerer(ABC, Generic[Piece, Answer]):
    """A model that answers texts in one way."""

    def __init__(self, settings: AnswerSettings) -> None:
        self.settings = settings

    @abstractmethod
    def pieces(self, texts: Sequence[Any]) -> list[list[Piece]]:
        """The pieces of each text.

        Raises:
            DataError: a text is too long for the model, or empty where it must not be.
        """

    @abstractmethod
    def joined(self, text: Any, pieces: Sequence[Piece], answers: Sequence[Answer]) -> Answer:
        """The answer to a text, from those to its pieces."""

    def size(self, piece: Piece) -> int:
        """How much work a piece is, in characters."""
        return len(str(piece)) + 1


class DecodingAnswerer(Answerer[Piece, Answer]):
    """One whose pieces are decoded a token at a time."""

    @abstractmethod
    def running(self) -> RunningAnswers[Piece, Answer]:
        """A new running batch."""

    @abstractmethod
    def most_tokens(self, piece: Piece) -> int:
        """How many tokens all hypotheses of a piece can have together, or a little fewer."""

    @property
    @abstractmethod
    def longest_answer(self) -> int:
        """How many tokens the answer to a piece has at most."""


class BatchAnswerer(Answerer[Piece, Answer]):
    """One that answers pieces in batches.

    `alone`: only pieces of one request may be computed together, because an answer depends on its place, or
    its digits on the batch.
    """

    alone: bool = False

    @abstractmethod
    def answers(self, pieces: Sequence[Piece], first: int) -> list[Answer]:
        """The answer to each piece; `first` is the place of the first among those of its request."""
