"""Warns of banned texts that a model cannot write in any case."""

from collections.abc import Iterable

from regard import console
from regard.data.tokenizer import Tokenizer
from regard.decoding.banned_words import can_write


class UnwritableBans:
    """Warns once of banned texts that no tokens of the vocabulary spell."""

    def __init__(self, texts: Iterable[str], tokenizer: Tokenizer) -> None:
        self._texts = tuple(text for text in texts if not can_write(tokenizer, text))

    def warn(self) -> None:
        """Name the texts, the first time that it is called."""
        if self._texts:
            named = ", ".join(map(repr, self._texts))
            console.warn(f"ban: the model's vocabulary cannot spell {named}, which it never writes anyway")
        self._texts = ()
