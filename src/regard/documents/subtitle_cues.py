"""Subtitles, SubRip (.srt) and WebVTT (.vtt): the texts of their cues, to be translated one by one.

The lines of a cue are one text, whose translation has as many lines; lines of a dialogue, which begin with a
dash, are texts of their own. Numbers, times, settings, comments and tags stay as they are.
"""

import html
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

from regard.documents.inline_tags import SpanLinks
from regard.documents.markup import Markup
from regard.documents.tag_rules import TagRules

SubtitleKind = Literal["srt", "vtt"]
RULES = TagRules(outline=False)  # all tags are within a sentence
TIMES = "-->"
DASH = r"[-–—](?:\s+|(?=[^\W\d]))"  # before what one of several speakers says
SPEAKER = re.compile(rf"\s*{DASH}")
BEFORE = re.compile(rf"\s*(?:\{{\\[^}}]*\}}\s*)*(?:{DASH})?")  # {\an8}: where a cue is shown
WORD = re.compile(r"(?:<[^>]*>|\S)+")
TAG = re.compile(r"<[^>]*>")


class Subtitles:
    """Subtitles; `texts` are those to translate. `whole`: as of `Markup`."""

    def __init__(self, source: str, kind: SubtitleKind, *, whole: bool = False) -> None:
        self._parts = [*_parts(source, kind, whole=whole)]
        self._cues = [part for part in self._parts if isinstance(part, _CueText)]
        self.texts = [text for cue in self._cues for text in cue.markup.texts]

    @property
    def has_inline_tags(self) -> bool:
        """True if the translation of a text is needed with its alignment."""
        return any(cue.markup.has_inline_tags for cue in self._cues)

    def filled(self, translations: Sequence[str], links: Sequence[SpanLinks] | None = None) -> str:
        """The subtitles with these texts; `links`: the alignments of texts and translations."""
        place, found = 0, []
        for part in self._parts:
            if isinstance(part, _CueText):
                own = slice(place, place := place + len(part.markup.texts))
                found.append(part.filled(translations[own], None if links is None else links[own]))
            else:
                found.append(part)
        return "\n".join(found)


class _CueText:
    """A text of a cue, on one or more lines."""

    def __init__(self, lines: Sequence[str], kind: SubtitleKind, *, whole: bool) -> None:
        self._lines, self._kind = len(lines), kind
        source = "\n".join(lines)
        before = BEFORE.match(source)
        begin = before.end() if before else 0
        self._before, self._source = source[:begin], source[begin:]
        joined = " ".join(self._source.split("\n"))
        if kind == "srt":  # which has no character references
            joined = joined.replace("&", "&amp;")
        self.markup = Markup(joined, RULES, whole=whole)

    def filled(self, translations: Sequence[str], links: Sequence[SpanLinks] | None) -> str:
        if not self.markup.texts:
            return self._before + self._source
        flat = [" ".join(each.split()).replace(TIMES, "->") for each in translations]
        text = self.markup.filled(flat, links)
        text = html.unescape(text) if self._kind == "srt" else text
        return self._before + "\n".join(_wrapped(text, self._lines))


def _parts(source: str, kind: SubtitleKind, *, whole: bool) -> Iterator[str | _CueText]:
    """The lines that stay as they are, and the texts of cues."""
    in_cue = False
    for is_blank, some in groupby(source.split("\n"), lambda line: not line.strip()):
        block = [*some]
        if is_blank:
            yield from block
            continue
        times = next((place for place, line in enumerate(block[:2]) if TIMES in line), None)
        in_cue = times is not None or (in_cue and kind == "srt")
        begin = 0 if times is None else times + 1
        if not in_cue:
            begin = len(block)
        yield from block[:begin]
        for lines in _speakers(block[begin:]):
            yield _CueText(lines, kind, whole=whole)


def _speakers(lines: Sequence[str]) -> list[list[str]]:
    """The lines of each speaker, if the first begins with a dash; else all lines together."""
    found: list[list[str]] = []
    for line in lines:
        if found and not (SPEAKER.match(TAG.sub("", lines[0])) and SPEAKER.match(TAG.sub("", line))):
            found[-1].append(line)
        else:
            found.append([line])
    return found


def _wrapped(text: str, lines: int) -> list[str]:
    """The text on so many lines of about the same length, or fewer if it has fewer words."""
    words = WORD.findall(text)
    if lines == 1 or len(words) < lines:
        return [text]
    lengths = [len(TAG.sub("", word)) + 1 for word in words]
    total, found, done = sum(lengths), [], 0
    for line in range(1, lines):
        end = done + 1  # each line has a word
        while end < len(words) - (lines - line) and _is_nearer(lengths, end, total * line / lines):
            end += 1
        found.append(" ".join(words[done:end]))
        done = end
    return [*found, " ".join(words[done:])]


def _is_nearer(lengths: Sequence[int], end: int, aim: float) -> bool:
    """True if a line is nearer to its aim with one word more."""
    so_far = sum(lengths[:end])
    return abs(so_far + lengths[end] - aim) < abs(so_far - aim)
