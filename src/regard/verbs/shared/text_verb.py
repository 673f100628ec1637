"""The base class of the text verbs: a model, loaded once, that answers many texts in order."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from regard.verbs.shared.lines import chunks, numbered
from regard.verbs.shared.shows_model import ShowsModel
from regard.verbs.shared.texts import strings

Text = TypeVar("Text")
Result = TypeVar("Result")


class TextVerb(ShowsModel, ABC, Generic[Text, Result]):
    """Answers each text, whatever the other texts are.

    Texts are read in chunks of `chunk`, which are sorted by length and computed together.
    """

    chunk: ClassVar[int] = 1024

    def __call__(self, texts: Iterable[Text]) -> Iterator[Result]:
        """The answer to each text, in order; `texts` may be endless.

        Raises:
            DataError: a text is not a str, or the model cannot read it. The answers before it come first.
        """
        return self.in_chunks(chunks(self.checked(texts), self.chunk))

    def in_chunks(self, chunks: Iterable[Sequence[Text]]) -> Iterator[Result]:
        """The answers to texts that come in chunks; those of a chunk are computed together."""
        for first, chunk in numbered(chunks):
            yield from self.answers(chunk, first)

    def checked(self, texts: Iterable[Text]) -> Iterator[Any]:
        """The texts, each checked to be a str; a str alone is one text."""
        return strings(texts)

    @abstractmethod
    def answers(self, texts: Sequence[Text], first: int) -> Iterator[Result]:
        """The answers to the texts of one chunk, whose first has the number `first`, from 1."""


def one_or_several(
    verb: TextVerb[str, Result], text: str | Iterable[str], shown: Callable[[Result], Any]
) -> Any:
    """What is shown of the answer to a text; a list for several texts."""
    found = [shown(each) for each in verb([text] if isinstance(text, str) else text)]
    return found[0] if isinstance(text, str) else found
