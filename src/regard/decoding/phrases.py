"""Words and texts that are asked for or forbidden, as the tokens that a model would write them with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, runtime_checkable

from regard.errors import ConfigError

WINDOW = 16  # tokens before a new one that are decoded with it: white space depends on neighbours


@runtime_checkable
class Words(Protocol):
    """What is asked of a tokeniser."""

    def encode_words(self, text: str) -> list[list[int]]:
        """The ids of each word, without what a model reads before a text."""
        ...

    def decode(self, ids: Iterable[int]) -> str: ...

    @property
    def vocab_size(self) -> int: ...


def phrases(tokenizer: Words | None, text: str, control: str) -> tuple[tuple[int, ...], ...]:
    """The token sequences that spell a text; what must be contained may be one of several with | between.

    As at the beginning of a line, and as after a space if that differs.

    Raises:
        ConfigError: nothing knows how to spell it.
    """
    if tokenizer is None:
        raise ConfigError(f"{control} = {text!r} needs a tokeniser", "give the tokeniser of the model")
    texts = text.split("|") if control == "must_contain" else [text]
    found = tuple(form for each in texts for form in _forms(tokenizer, each))
    if not found:
        raise ConfigError(
            f"{control} = {text!r} cannot be said by this model: it has no tokens for it",
            "write it as the model's training text does",
        )
    return found


def _forms(tokenizer: Words, text: str) -> list[tuple[int, ...]]:
    """Without those that hold an unknown token."""
    alone, after = (tuple(chain.from_iterable(tokenizer.encode_words(each))) for each in (text, " " + text))
    forms = [alone] if after[-len(alone) :] == alone else [alone, after]
    unknown = getattr(tokenizer, "unk_id", None)
    return [form for form in forms if form and unknown not in form]


@dataclass(frozen=True)
class StopTexts:
    """A hypothesis ends when one of these texts is in what it has said, also across tokens."""

    texts: tuple[str, ...]
    tokenizer: Words

    def __call__(self, given: Sequence[int], said: Sequence[int]) -> bool:
        reach = 4 * max(map(len, self.texts)) + WINDOW  # a character is at most four tokens; what is before
        recent = list(said[-reach:])  # that was looked at when it was said
        context = [*given, *said[: len(said) - len(recent)]][-WINDOW:]
        before = self.tokenizer.decode(context)
        text = self.tokenizer.decode([*context, *recent])[len(before) :]
        return any(each in text for each in self.texts)


def up_to(text: str, stops: Sequence[str]) -> str:
    """The text before the first of the stops."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else text


def begun(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end of the text may be the beginning of a stop."""
    lengths = [length for stop in stops for length in range(1, len(stop)) if text.endswith(stop[:length])]
    return max(lengths, default=0)
