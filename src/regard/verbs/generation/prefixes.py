"""Preparing a source before it is encoded: a task prefix, capitals in lower case."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from regard.data.odd_spaces import ODD_SPACE, replaced_spaces
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_file import tokenizer_kind
from regard.decoding.settings import GenerationSettings
from regard.errors import ConfigError, did_you_mean

LANGUAGE = re.compile(r"\s*(>>[^<>\s]+<<)\s*(.*)", re.DOTALL)  # a language token of Marian's models
# a tag of a language at the beginning of a text, as corpora have it: >>fr<<, <2fr>, __fr__, __zho_Hans__
TAG = re.compile(r"\s*(>>[^<>\s]+<<|<2[\w-]+>|__[a-z]{2,3}(?:[_-][A-Za-z]+)?__)")

MAY_BEGIN_TAG = re.compile(
    r"\s*(?:>{0,2}|>>[^<>\s]+<?|<|<2[\w-]*|_{0,2}|__[\w-]+)"
)  # the first characters of TAG
MOST_TOKENS = 24  # of a tag, with those that a tokeniser puts before every text


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """A text that is put before each source, and the ids of special tokens before that.

    `lower_capitals`: a source of several words that is all in capitals is lowercased.
    """

    text: str = ""
    ids: tuple[int, ...] = ()
    lower_capitals: bool = False

    def before(self, text: str) -> str:
        """The source with the text of the prefix."""
        if self.lower_capitals and text.isupper() and len(text.split()) > 1:
            text = text.lower()
        return self.text + text if text else ""

    def encoded(self, texts: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
        """The ids of sources with the prefix. White space around a source is removed."""
        before = [self.before(_readable(text.strip(), tokenizer)[0]) for text in texts]
        return [self.first(ids, tokenizer) for ids in tokenizer.encode_batch(before)]

    def spans(self, text: str, tokenizer: Tokenizer) -> list[tuple[int, int]]:
        """The characters of each of the `encoded` ids in the text; those of the prefix have none."""
        bare, before = text.strip(), len(self.text)
        read, places = _readable(bare, tokenizer)
        found = [
            (places[max(0, min(begin - before, len(read)))], places[max(0, min(end - before, len(read)))])
            for begin, end in tokenizer.spans(self.before(read))
        ]
        begin = len(tokenizer.prefix)
        return [*found[:begin], *[(0, 0)] * len(self.ids), *found[begin:]]

    def first(self, ids: list[int], tokenizer: Tokenizer) -> list[int]:
        """`ids` with the tokens of the prefix, after those that the tokeniser puts before every text."""
        begin = len(tokenizer.prefix)
        return [*ids[:begin], *self.ids, *ids[begin:]]


def _readable(text: str, tokenizer: Tokenizer) -> tuple[str, Sequence[int]]:
    """A text as a tokeniser that regard trained can read it, and where each character of it was.

    Of spaces of another width, and of characters without any, those that it does not know become a space, or
    are left out, as in the training text.
    """
    places: Sequence[int] = range(len(text) + 1)
    replaced = replaced_spaces(tokenizer, set(ODD_SPACE.findall(text)))
    if not replaced:
        return text, places
    found = [(replaced.get(each, each), place) for place, each in enumerate(text)]
    found = [(each, place) for each, place in found if each]
    return "".join(each for each, _ in found), [*(place for _, place in found), len(text)]


def source_prefix(
    settings: GenerationSettings, task: str, tokenizer: Tokenizer, given: str | None = None
) -> Prefix:
    """What is put before each source of a model with these settings: `given`, or its own for this task.

    Raises:
        ConfigError: there are several of its own, or the model has no such language.
    """
    text = default_prefix(settings.prefixes, task) if given is None else given
    return prefix_of(text, tokenizer, lower_capitals=settings.lower_capitals)


def prefix_of(text: str, tokenizer: Tokenizer, *, lower_capitals: bool = False) -> Prefix:
    """The prefix that is written so: text, after a language token if it begins with one.

    A tokeniser that regard trained reads a tag as it was in the training lines: a word, then a space.

    Raises:
        ConfigError: the model has no such language, or the prefix has a NUL.
    """
    if "\0" in text:
        raise ConfigError("prefix has a NUL character", "leave it out")
    tag = TAG.match(text)
    if tokenizer.trained_by_regard and tag and not text[tag.end() :].strip():
        text = f"{tag[1]} "
    found = LANGUAGE.fullmatch(text)
    if found is None:
        return Prefix(text=text, lower_capitals=lower_capitals)
    language, rest = found.groups()
    numbers = _named(tokenizer)
    if tokenizer.trained_by_regard and (numbers or _reads_any_character(tokenizer)):
        return Prefix(text=text, lower_capitals=lower_capitals)  # its pieces may be several
    if language not in numbers:
        known = [piece for piece in numbers if LANGUAGE.fullmatch(piece)]
        hint = did_you_mean(language, known) if known else "the model has no language tokens"
        raise ConfigError(f"prefix = {text!r}: {language} is not a language of this model", hint)
    return Prefix(text=rest, ids=(numbers[language],), lower_capitals=lower_capitals)


def reads_languages(tokenizer: Tokenizer) -> bool:
    """True if languages are special tokens, as in Marian's models: a prefix is one, but no text."""
    return not tokenizer.trained_by_regard and any(map(LANGUAGE.fullmatch, _named(tokenizer)))


def spelled_language(text: str) -> str:
    """The language token that a text begins with as its letters; "": there is none."""
    found = LANGUAGE.match(text)
    return found[1] if found else ""


def known_tags(tokenizer: Tokenizer, trained: Sequence[str] = ()) -> list[str]:
    """The tags of languages of a tokeniser that regard trained: its own tokens, and those of training lines.

    `trained`: the latter (`tags` in generation.json), of which one may be several tokens.
    """
    if not tokenizer.trained_by_regard:
        return []
    own = (piece.strip() for piece in tokenizer.vocabulary() if TAG.fullmatch(piece))
    return sorted({*own, *trained})


def tags_of_sources(sources: Iterable[Sequence[int]], tokenizer: Tokenizer) -> list[str]:
    """The tags of languages that sources, which are tokens, begin with."""
    found, left = set[str](), [*sources]
    for length in range(len(tokenizer.prefix) + 1, MOST_TOKENS + 1):
        places: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for place, ids in enumerate(left):
            if len(ids) >= length:
                places[tuple(ids[:length])].append(place)
        open_places: list[int] = []
        for ids, some in places.items():
            text = tokenizer.decode(ids)
            if tag := TAG.match(text):
                found.add(tag[1])
            elif MAY_BEGIN_TAG.fullmatch(text):
                open_places += some
        left = [left[place] for place in open_places]
    return sorted(found)


def unknown_tag(text: str, known: Sequence[str]) -> str:
    """The tag that a text begins with and that is none of the model's; "": there is none."""
    tag = TAG.match(text)
    return tag[1] if known and tag and tag[1] not in known else ""


def _named(tokenizer: Tokenizer) -> dict[str, int]:
    """The pieces that language tokens may be, and their ids."""
    names = {number: piece for piece, number in tokenizer.vocabulary().items() if ">>" in piece}
    return {piece.strip(): number for piece, number in zip(tokenizer.tokens(names), names, strict=True)}


def _reads_any_character(tokenizer: Tokenizer) -> bool:
    """True if the vocabulary does not show whether the training lines had tags: it has no longer pieces."""
    return tokenizer_kind(json.loads(tokenizer.to_bytes())) in ("characters", "bytes")


def lost_tag(pieces: Sequence[str]) -> str:
    """The tag that the first piece of a split text begins with and a later one lacks; "": there is none."""
    tag = TAG.match(pieces[0])
    if tag is None or all(TAG.match(piece) for piece in pieces[1:] if piece.strip()):
        return ""
    return tag[1]


def default_prefix(prefixes: Mapping[str, str] | None, task: str) -> str:
    """The prefix in the model's folder for this task, "translation" or "summarization".

    T5's task names end with languages: translation_en_to_de.

    Raises:
        ConfigError: there are several.
    """
    own = {name: text for name, text in (prefixes or {}).items() if f"{name}_".startswith(f"{task}_")}
    if len(set(own.values())) > 1:
        raise ConfigError(
            f"this model has several prefixes, for {', '.join(own)}",
            "name one: " + " or ".join(f"--prefix {text!r}" for text in own.values()),
        )
    return next(iter(own.values()), (prefixes or {}).get("", ""))
