"""Subtitles, SubRip (.srt) and WebVTT (.vtt): the texts of their cues, to be translated one by one.

The lines of a cue are one text, whose translation has as many lines; lines of a dialogue, which begin with a
dash, are texts of their own. Numbers, times, settings, comments and tags stay as they are; only the times of
single words (<00:05.000>) are left out of a translated cue, whose words are others.
"""

import html
import re
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import Literal

from regard.documents.inline_tags import SpanLinks
from regard.documents.markup import Markup
from regard.documents.tag_rules import TagRules

SubtitleKind = Literal["srt", "vtt"]
Role = Literal["kept", "times", "text", "untimed"]  # of a line; untimed: it may be a cue, and has no times
RULES = TagRules(outline=False)  # all tags are within a sentence
TIMES = "-->"
TIMES_LINE = re.compile(r"\s*\d[\d:.,\s]*-->\s*\d")
BROKEN = re.compile(r"[^a-zA-Z]*(?::\d\d[.,]\d|\d:\d\d\s*-*[>→])[^a-zA-Z]*")  # that may be meant for times
TIME_TAG = re.compile(r"<\d+:\d\d[\d:.]*>")
NO_CUE = re.compile(r"(?:WEBVTT|NOTE|STYLE|REGION)(?!\S)")  # begins a block of WebVTT that is no cue
REFERENCE = re.compile(r"&(?:#\d+|#[xX][\da-fA-F]+|[a-zA-Z][a-zA-Z\d]*);")
DASH = r"[-–—](?:\s+|(?=[^\W\d]))"  # before what one of several speakers says
SPEAKER = re.compile(rf"\s*{DASH}")
BEFORE = re.compile(rf"\s*(?:\{{\\[^}}]*\}}\s*)*(?:{DASH})?")  # {\an8}: where a cue is shown
WORD = re.compile(r"(?:<[^>]*>|\S)+")
TAG = re.compile(r"<[^>]*>")


class Subtitles:
    """Subtitles; `texts` are those to translate. `whole`: as of `Markup`.

    Attributes:
        lines: the line of each text, from 1.
        untimed: the first line of each block that may be a cue, and has no times; it stays as it is.
        has_cues: True if a line has times.
        drops_times: True if times of single words are left out.
    """

    def __init__(self, source: str, kind: SubtitleKind, *, whole: bool = False) -> None:
        lines = source.split("\n")
        roles: list[Role] = list(_roles(lines, kind))
        self._parts = [*_parts(lines, roles, kind, whole=whole)]
        self._cues = [part for part in self._parts if isinstance(part, _CueText)]
        self.texts = [text for cue in self._cues for text in cue.markup.texts]
        self.lines = [cue.line for cue in self._cues for _ in cue.markup.texts]
        self.untimed = [
            line
            for line, (before, role) in enumerate(zip(["kept", *roles], roles, strict=False), start=1)
            if role == "untimed" != before
        ]
        self.has_cues = "times" in roles
        self.drops_times = any(cue.drops_times for cue in self._cues)

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

    def __init__(self, lines: Sequence[str], line: int, kind: SubtitleKind, *, whole: bool) -> None:
        self._lines, self.line = len(lines), line
        source = "\n".join(lines)
        before = BEFORE.match(source)
        begin = before.end() if before else 0
        self._before, self._source = source[:begin], source[begin:]
        joined = TIME_TAG.sub("", " ".join(self._source.split("\n")))
        self._is_plain = kind == "srt" and not REFERENCE.search(joined)
        if self._is_plain:
            joined = joined.replace("&", "&amp;")
        self.markup = Markup(joined, RULES, whole=whole)
        self.drops_times = bool(self.markup.texts and TIME_TAG.search(self._source))

    def filled(self, translations: Sequence[str], links: Sequence[SpanLinks] | None) -> str:
        if not self.markup.texts:
            return self._before + self._source
        flat = [" ".join(each.split()).replace(TIMES, "->") for each in translations]
        text = self.markup.filled(flat, links)
        text = html.unescape(text) if self._is_plain else text
        return self._before + "\n".join(_wrapped(text, self._lines))


def _parts(
    lines: Sequence[str], roles: Sequence[Role], kind: SubtitleKind, *, whole: bool
) -> Iterator[str | _CueText]:
    """The lines that stay as they are, and the texts of cues."""
    place = 0
    for is_text, some in groupby(roles, lambda role: role == "text"):
        block = lines[place : place + len([*some])]
        for each in _speakers(block) if is_text else [[line] for line in block]:
            yield _CueText(each, place + 1, kind, whole=whole) if is_text else each[0]
            place += len(each)


def _roles(lines: Sequence[str], kind: SubtitleKind) -> Iterator[Role]:
    """What each line is. Times begin a cue, also without a blank line before it."""
    state: Role = "untimed"  # of a further line of the block
    begins = True
    for place, line in enumerate(lines):
        if not line.strip():
            if kind == "srt" or not line:  # a space is a line of a cue in WebVTT
                begins = True
                state = "untimed" if kind == "vtt" else state
            yield "kept"
        elif TIMES_LINE.match(line):
            begins, state = False, "text"
            yield "times"
        elif _is_broken(line, kind):
            begins, state = False, "untimed"
            yield "untimed"
        elif _is_name(lines, place, kind, begins=begins):
            begins = False
            yield "kept"
        else:
            if begins and kind == "vtt":
                state = "kept" if NO_CUE.match(line) else "untimed"
            elif begins and line.strip().isdigit():
                state = "untimed"
            begins = False
            yield state


def _is_broken(line: str, kind: SubtitleKind) -> bool:
    """True for a line that may be meant for times, and cannot be read as such."""
    has_arrow = TIMES in line and (kind == "vtt" or re.search(r"\d:\d", line))
    return not TIMES_LINE.match(line) and bool(has_arrow or BROKEN.fullmatch(line))


def _is_name(lines: Sequence[str], place: int, kind: SubtitleKind, *, begins: bool) -> bool:
    """True for the number or the identifier of the cue whose times follow."""
    is_number = lines[place].strip().isdigit()
    if not is_number and not (begins and kind == "vtt"):
        return False
    following = (line for line in islice(lines, place + 1, None) if line.strip() or not is_number)
    line = next(following, "")
    return bool(TIMES_LINE.match(line)) or _is_broken(line, kind)


def _speakers(lines: Sequence[str]) -> list[list[str]]:
    """The lines of each speaker: a line that begins with a dash begins another one's."""
    found: list[list[str]] = []
    for line in lines:
        if found and not SPEAKER.match(TAG.sub("", line)):
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
