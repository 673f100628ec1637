"""What a text is made into before it is encoded: a prefix that names the task, capitals in lower case."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from regard.data.tokenizer import Tokenizer
from regard.errors import ConfigError, did_you_mean

LANGUAGE = re.compile(
    r"\s*(>>[^<>\s]+<<)\s*(.*)", re.DOTALL
)  # as Marian's models of several languages have it


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """A text that stands before each other, and tokens before that which no text can make.

    `lower_capitals`: a text of several words that is all in capitals is read in lower case.
    """

    text: str = ""
    ids: tuple[int, ...] = ()
    lower_capitals: bool = False

    def before(self, text: str) -> str:
        if self.lower_capitals and text.isupper() and len(text.split()) > 1:
            text = text.lower()
        return self.text + text if text else ""

    def encoded(self, texts: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
        """The ids of texts, each with what stands before it.

        White space around a text is no part of it: a model has hardly ever seen any.
        """
        before = [self.before(text.strip()) for text in texts]
        return [self.first(ids, tokenizer) for ids in tokenizer.encode_batch(before)]

    def first(self, ids: list[int], tokenizer: Tokenizer) -> list[int]:
        """`ids` with the tokens, after what the tokeniser puts before every text."""
        begin = len(tokenizer.prefix)
        return [*ids[:begin], *self.ids, *ids[begin:]]


def prefix_of(text: str, tokenizer: Tokenizer, *, lower_capitals: bool = False) -> Prefix:
    """The prefix that is spelt so: a token of a language where it begins with one, and text.

    Raises:
        ConfigError: the model has no such language.
    """
    found = LANGUAGE.fullmatch(text)
    if found is None:
        return Prefix(text=text, lower_capitals=lower_capitals)
    language, rest = found.groups()
    numbers = {piece.strip(): number for piece, number in tokenizer.vocabulary().items() if ">>" in piece}
    if language not in numbers:
        known = [piece for piece in numbers if LANGUAGE.fullmatch(piece)]
        hint = did_you_mean(language, known) if known else "the model has no tokens of languages"
        raise ConfigError(f"prefix = {text!r}: {language} is no language of this model", hint)
    return Prefix(text=rest, ids=(numbers[language],), lower_capitals=lower_capitals)


def usual_prefix(prefixes: Mapping[str, str] | None, task: str) -> str:
    """What the model's folder says stands before a text of this task, "translation" or "summarization".

    T5's names of tasks go on with languages: translation_en_to_de.

    Raises:
        ConfigError: there are several.
    """
    own = {name: text for name, text in (prefixes or {}).items() if f"{name}_".startswith(f"{task}_")}
    if len(set(own.values())) > 1:
        raise ConfigError(
            f"this model has several prefixes, of {', '.join(own)}",
            "name one: " + " or ".join(f"--prefix {text!r}" for text in own.values()),
        )
    return next(iter(own.values()), (prefixes or {}).get("", ""))
