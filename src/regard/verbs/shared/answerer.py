"""Answerers: the interface of a model to a server, which batches the pieces of many texts.

An answerer splits a text, a recording or a pair of texts into pieces, answers each piece as if it were alone,
and joins the answers. Pieces of several requests are computed together if the settings of the requests are
equal (`verbs/serve.py`).
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

Task = Literal["translate", "generate", "embed", "classify", "tag", "fill", "score", "transcribe"]
Piece = TypeVar("Piece")
Answer = TypeVar("Answer")
ANY_SPEECH = SpeechOptions()  # the language is detected by the model, or named in its settings


@dataclass(frozen=True, kw_only=True)
class AnswerSettings:
    """How texts are answered.

    Attributes:
        count: how many candidates a translation has, texts a prompt, classes a text, or tokens a mask.
        prefix: the text before each source, such as >>fra<<; None: the model's own.
        chat: prompts are conversations, as `ServedModel.rendered` returns them.
        alignments: candidates of a translation have alignments to the source.
        keep: what stays as it is in a translation, as of `TranslationOptions`.
        alternatives: each token comes with so many of the most probable tokens in its place, and the parts of
            a text come with their tokens; None: neither.
        words: the words of a text to label are separated by white space alone.
    """

    task: Task
    controls: Controls = UNSET
    count: int = 1
    prefix: str | None = None
    split: SplitMode = "auto"
    chat: bool = False
    alignments: bool = False
    keep: tuple[str, ...] = ()
    alternatives: int | None = None
    words: bool = False
    speech: SpeechOptions = ANY_SPEECH


@dataclass(frozen=True, eq=False)
class Recording:
    """Sound of one channel; `rate`: samples per second."""

    samples: Float[np.ndarray, " samples"]
    rate: int

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return len(self.samples) / self.rate


class Answerer(ABC, Generic[Piece, Answer]):
    """A model with the settings of its answers."""

    def __init__(self, settings: AnswerSettings) -> None:
        self.settings = settings

    def pieces(self, texts: Sequence[Any]) -> list[list[Piece]]:
        """The pieces of each text; by default it is one piece.

        Raises:
            DataError: a text is too long for the model, or empty where it must not be.
        """
        return [[text] for text in texts]

    def joined(self, text: Any, pieces: Sequence[Piece], answers: Sequence[Answer]) -> Answer:
        """The answer to a text, joined from the answers to its pieces."""
        [answer] = answers
        return answer

    def count_unknown(self, piece: Piece) -> int:
        """How many tokens of a piece the model does not know: its answer ignores what they stand for."""
        return 0

    def size(self, piece: Piece) -> int:
        """The work of a piece, in characters: a server forms batches by it."""
        return len(str(piece)) + 1


class DecodingAnswerer(Answerer[Piece, Answer]):
    """An answerer that decodes its pieces token by token, in a batch that pieces can join at any step."""

    @abstractmethod
    def running(self) -> RunningAnswers[Piece, Answer]:
        """A new, empty batch."""

    @abstractmethod
    def most_tokens(self, piece: Piece) -> int:
        """An estimate of how many tokens all hypotheses of a piece can have together."""

    @property
    @abstractmethod
    def longest_answer(self) -> int:
        """The greatest number of tokens of the answer to a piece."""

    @property
    def records_alternatives(self) -> bool:
        """True if tokens can come with the most probable ones in their place."""
        return False


class BatchAnswerer(Answerer[Piece, Answer]):
    """An answerer that computes a batch of pieces by one call.

    `alone`: a batch has pieces of one request only, because an answer depends on its place in the request, or
    its last digits on the batch.
    """

    alone: bool = False

    @abstractmethod
    def answers(self, pieces: Sequence[Piece], first: int) -> list[Answer]:
        """The answer to each piece; `first`: the place of `pieces[0]` among the pieces of its request."""
