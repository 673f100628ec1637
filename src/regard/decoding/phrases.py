"""Required, forbidden and stop texts as token sequences."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, runtime_checkable

from regard.errors import ConfigError

# punctuation that ends a sentence, in several scripts, and what may follow it
FINAL = tuple(".!?\u2026\u3002\uff01\uff1f\uff0e\u061f\u06d4\u0964")
CLOSING = " \"'\u201c\u201d\u2019\u00bb\u00ab\u203a)]\u300d\u300f"
TOKENS_OF_CHARACTER = 4  # at most: one for each of its bytes
WINDOW = 16  # tokens before a new one that are decoded with it: white space depends on neighbours


@runtime_checkable
class Words(Protocol):
    """The methods of a tokeniser that decoding uses."""

    def encode_words(self, text: str) -> list[list[int]]:
        """The ids of each word, without special tokens."""
        ...

    def decode(self, ids: Iterable[int]) -> str: ...

    @property
    def vocab_size(self) -> int: ...


def phrases(tokenizer: Words | None, text: str, control: str) -> tuple[tuple[int, ...], ...]:
    """The token sequences of a text: at the beginning of a line, and after a space if they differ.

    The control `must_contain` takes several texts with | between them.

    Raises:
        ConfigError: there is no tokeniser, it has no tokens for the text, or an alternative is empty.
    """
    if tokenizer is None:
        raise ConfigError(f"{control} = {text!r} needs a tokeniser", "pass the model's tokeniser")
    texts = text.split("|") if control == "must_contain" else [text]
    if len(texts) > 1 and not all(each.strip() for each in texts):
        raise ConfigError(f"{control} = {text!r} has an empty alternative", "remove the | beside it")
    found = tuple(form for each in texts for form in usual_forms(tokenizer, each))
    if not found:
        raise ConfigError(
            f"{control} = {text!r}: this model has no tokens for it",
            "write it as in the model's training text",
        )
    return found


def usual_forms(tokenizer: Words, text: str) -> list[tuple[int, ...]]:
    """The token sequences of a text, without those that hold an unknown token."""
    alone, after = (tuple(chain.from_iterable(tokenizer.encode_words(each))) for each in (text, " " + text))
    forms = [alone] if after[-len(alone) :] == alone else [alone, after]
    unknown = getattr(tokenizer, "unk_id", None)
    return [form for form in forms if form and unknown not in form]


@dataclass(frozen=True)
class StopTexts:
    """Stops a hypothesis when one of these texts is in its output, also across tokens."""

    texts: tuple[str, ...]
    tokenizer: Words

    def __call__(self, prefix: Sequence[int], generated: Sequence[int]) -> bool:
        most = TOKENS_OF_CHARACTER * max(map(len, self.texts)) + WINDOW
        recent = list(generated[-most:])  # earlier tokens were searched before
        context = [*prefix, *generated[: len(generated) - len(recent)]][-WINDOW:]
        before = self.tokenizer.decode(context)
        text = self.tokenizer.decode([*context, *recent])[len(before) :]
        return any(each in text for each in self.texts)


@dataclass(frozen=True)
class SentenceEnd:
    """True of tokens whose text ends with final punctuation."""

    tokenizer: Words

    def __call__(self, ids: Sequence[int]) -> bool:
        return ends_sentence(self.tokenizer.decode(ids[-WINDOW:]))


def ends_sentence(text: str) -> bool:
    """True if a text ends with final punctuation; quotation marks and brackets may follow."""
    return text.rstrip(CLOSING).endswith(FINAL)


def up_to(text: str, stops: Sequence[str]) -> str:
    """The text before the first stop text."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else text


def partial_stop(text: str, stops: Sequence[str]) -> int:
    """How many characters at the end of the text may begin a stop text."""
    lengths = [length for stop in stops for length in range(1, len(stop)) if text.endswith(stop[:length])]
    return max(lengths, default=0)
