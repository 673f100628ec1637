"""What stays as it is in a translation: placeholders, addresses and what a user names.

A stand-in is a number, which translation models copy. It is put into the text in place of what is kept, which
replaces it in the translation.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import itemgetter

from regard import console
from regard.data.tokenizer import Tokenizer
from regard.decoding.phrases import usual_forms
from regard.errors import ConfigError
from regard.verbs.generation.prefixes import TAG

PLACEHOLDERS, NOTHING = "placeholders", "none"  # in place of a regular expression
PATTERNS = (
    r"(?:https?|ftp)://[^\s<>\"]*[\w/]",
    r"\bwww\.[^\s<>\"]*[\w/]",
    r"(?<![\w.+-])[\w.+-]*\w@\w[\w-]*(?:\.\w[\w-]*)+",
    r"[$#%]?\{\{[^{}\n]*\}\}",  # {{ user.name }}
    r"[$#%]?\{[^{}\s]*\}",  # {name}, {0:.2f}, ${x}, %{x}
    r"%\(\w+\)[-+#0]*[\d.]*[a-zA-Z]",  # %(name)s
    r"(?<![\d%])%(?:\d+\$)?[-+#0]*[\d.]*(?:ll?|hh?|z)?[sdiufFeEgGxXc@](?![a-zA-Z]{2})",  # %s, %1$d, %.2f
    r"</?\w[\w:-]*(?:\s[^<>]*)?/?>",  # <0>, <b>, <br/>
)
# The included model copies 42, 58 and 73 in 14 of 15 such sentences, 17, 23 and 29 in 13, and Tom, Mary and
# John in 11.
STAND_INS = (
    "42", "58", "73", "317", "428", "539", "64", "86", "91", "246", "753", "682", "35", "97", "814", "961",
)  # fmt: skip
Span = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A text that is kept, with its place, and its stand-in.

    `before`, `after`: True if it touches a word there, from which a space parts its stand-in.
    """

    text: str
    span: Span
    stand_in: str = ""
    before: bool = False
    after: bool = False

    @property
    def written(self) -> str:
        """What stands in the text that is translated."""
        return " " * self.before + self.stand_in + " " * self.after

    def found(self) -> re.Pattern[str]:
        """The stand-in in a translation, as a number of its own."""
        space = r"\s*"
        number = rf"(?<!\d)(?<!\d[.,]){self.stand_in}(?![.,]?\d)"
        return re.compile(f"{space * self.before}{number}{space * self.after}")


@dataclass(frozen=True)
class Moved:
    """Where the characters of a text are in another, in which some spans were replaced.

    `spans`: each in the text, and in the other.
    """

    spans: tuple[tuple[Span, Span], ...]

    def __call__(self, place: int) -> int:
        """The place in the other text; within a span that of its end."""
        shift = 0
        for (begin, end), (_, other_end) in self.spans:
            if place <= begin:
                break
            if place < end:
                return other_end
            shift = other_end - end
        return place + shift

    def span(self, span: Span) -> Span:
        """The span in the other text; of one within a span all of that."""
        for (begin, end), other in self.spans:
            if begin <= span[0] < end and span[1] <= end:
                return other
        return self(span[0]), self(span[1])


UNMOVED = Moved(())


@dataclass(frozen=True)
class HiddenText:
    """A text with stand-ins for what is kept; `source` is the text as it was written."""

    source: str
    kept: tuple[Kept, ...]

    @property
    def text(self) -> str:
        """What is translated; empty if nothing but what is kept has a letter or a digit."""
        parts = [*self.others()]
        if not self.kept:
            return self.source
        if not any(map(has_words, parts)):
            return ""
        return parts[0] + "".join(
            each.written + part for each, part in zip(self.kept, parts[1:], strict=True)
        )

    @property
    def stands_in(self) -> bool:
        """True if there is a stand-in for each text that is kept."""
        return all(each.stand_in for each in self.kept)

    def others(self) -> Iterator[str]:
        """The parts before, between and after what is kept."""
        borders = [0, *(place for each in self.kept for place in each.span), len(self.source)]
        for begin, end in zip(borders[::2], borders[1::2], strict=True):
            yield self.source[begin:end]

    def parts(self) -> list[str]:
        """The other parts as they are translated one by one; those without words are not."""
        return [part if has_words(part) else "" for part in self.others()]

    def moved(self) -> Moved:
        """From `text` to `source`, both without outer white space."""
        found: list[tuple[Span, Span]] = []
        shift = len(self.source) - len(self.source.lstrip())
        longer = 0  # by how much the text is longer so far
        for each in self.kept:
            begin, end = each.span
            start = begin - shift + longer
            found.append(((start, start + len(each.written)), (begin - shift, end - shift)))
            longer += len(each.written) - (end - begin)
        return Moved(tuple(found))

    def restored(self, translation: str) -> tuple[str, Moved] | None:
        """The translation with what is kept; None if it has not each stand-in once."""
        places: list[tuple[Span, Kept]] = []
        for each in self.kept:
            found = [*each.found().finditer(translation)]
            if len(found) != 1:
                return None
            places.append((found[0].span(), each))
        places.sort(key=lambda place: place[0])
        if any(one[1] > other[0] for (one, _), (other, _) in pairwise(places)):
            return None
        text, end, spans = "", 0, []
        for (begin, stop), each in places:
            text += translation[end:begin]
            spans.append(((begin, stop), (len(text), len(text) + len(each.text))))
            text, end = text + each.text, stop
        return text + translation[end:], Moved(tuple(spans))


class TextHider:
    """Puts stand-ins into texts: numbers that both tokenisers know, and that the text does not have."""

    def __init__(self, patterns: Sequence[str], source: Tokenizer, target: Tokenizer) -> None:
        self._patterns = [*map(re.compile, patterns)]
        self._noted: set[str] = set()  # patterns of which a note has said that they keep nothing
        self._known = [each for each in STAND_INS if _is_known(each, source, target)]

    def hidden(self, text: str) -> HiddenText:
        """The text with what is kept of it, and stand-ins as far as there are enough."""
        numbers = iter([each for each in self._known if each not in text])
        kept = (
            Kept(
                text=text[begin:end],
                span=(begin, end),
                stand_in=next(numbers, ""),
                before=begin > 0 and text[begin - 1].isalnum(),
                after=text[end : end + 1].isalnum(),
            )
            for begin, end in self._spans(text)
        )
        return HiddenText(text, tuple(kept))

    def unbroken(self, pieces: Sequence[str]) -> list[str]:
        """The pieces of a text, joined where one alone does not have a text that is kept in all of them."""
        text = "".join(pieces)
        borders = [0, *accumulate(map(len, pieces))]
        spans = self._spans(text) if len(pieces) > 1 else []
        known: dict[Span, list[Span]] = {}  # of each piece so far, what is kept in it
        while broken := [*self._broken(text, borders, spans, known)]:
            apart = {place for begin, end in broken for place in _around(borders, begin, end)}
            borders = [place for place in borders if place not in apart or place in (0, len(text))]
        return [text[begin:end] for begin, end in pairwise(borders)]

    def _broken(
        self, text: str, borders: Sequence[int], spans: Sequence[Span], known: dict[Span, list[Span]]
    ) -> Iterator[Span]:
        """The spans that are not kept where the piece in which they begin is read alone."""
        for span in spans:
            number = bisect_right(borders, span[0])
            start, stop = piece = borders[number - 1], borders[number]
            if piece not in known:
                known[piece] = self._spans(text[start:stop])
            found = known[piece]
            last = bisect_right(found, span[0] - start, key=itemgetter(0)) - 1
            if last < 0 or found[last][1] + start < span[1]:
                yield span

    def _spans(self, text: str) -> list[Span]:
        """The places of what is kept; of several that touch one place. A tag of a language is read."""
        tag = TAG.match(text)
        first = tag.end() if tag else 0
        matches = [span for each in self._patterns for span in self._matches(each, text, first)]
        spans: list[Span] = []
        for begin, end in sorted(matches):
            if spans and begin <= spans[-1][1]:
                begin, last = spans.pop()
                end = max(last, end)
            spans.append((begin, end))
        return spans

    def _matches(self, pattern: re.Pattern[str], text: str, first: int) -> list[Span]:
        """The places of a pattern that are not blank; a note if all are."""
        matches = [*pattern.finditer(text, first)]
        found = [each.span() for each in matches if each[0].strip()]
        if matches and not found and pattern.pattern not in self._noted:
            self._noted.add(pattern.pattern)
            console.note(
                f"keep = {pattern.pattern!r} matches an empty text or spaces, of which nothing is kept"
            )
        return found


def patterns_of(keep: Sequence[str], *, default: Sequence[str] = ()) -> tuple[str, ...]:
    """The regular expressions that an option `keep` stands for.

    Raises:
        ConfigError: one is none, or is found in an empty text.
    """
    found: list[str] = []
    for each in keep or default:
        found += PATTERNS if each == PLACEHOLDERS else () if each == NOTHING else (_checked(each),)
    return tuple(found)


def has_words(text: str) -> bool:
    """True if a text has a letter or a digit."""
    return any(character.isalnum() for character in text)


def _checked(pattern: str) -> str:
    try:
        empty = re.compile(pattern).search("")
    except re.error as error:
        raise ConfigError(
            f"keep = {pattern!r} is no regular expression: {error}", "escape characters such as ( by \\"
        ) from None
    if empty:
        raise ConfigError(f"keep = {pattern!r} matches an empty text", "write + in place of *")
    return pattern


def _around(borders: Sequence[int], begin: int, end: int) -> Sequence[int]:
    """The borders within a text; if there are none, those of its piece."""
    after = bisect_right(borders, begin)
    return borders[after : bisect_left(borders, end)] or borders[after - 1 : after + 1]


def _is_known(number: str, source: Tokenizer, target: Tokenizer) -> bool:
    return source.unk_id not in source.encode(number) and bool(usual_forms(target, number))
