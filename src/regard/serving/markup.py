"""HTML: the texts between its tags, which are translated one by one.

Tags, comments, and elements such as scripts and code stay as they are. A sentence with a tag inside is
translated in parts.
"""

import html
import re
from collections.abc import Iterator, Sequence

RAW = re.compile(r"<(script|style|code|pre|textarea)\b", re.IGNORECASE)  # elements that are not translated


class Markup:
    """A piece of HTML; `texts` are those to translate."""

    def __init__(self, source: str) -> None:
        self._parts = list(_parts(source))
        self.texts = [html.unescape(part).strip() for part, is_text in self._parts if is_text]

    def filled(self, translations: Sequence[str]) -> str:
        """The HTML with these texts."""
        rest = iter(translations)
        return "".join(_framed(part, next(rest)) if is_text else part for part, is_text in self._parts)


def _parts(source: str) -> Iterator[tuple[str, bool]]:
    """Each part, and True if it is a text with letters or digits."""
    place = 0
    while place < len(source):
        start = source.find("<", place)
        text = source[place : len(source) if start < 0 else start]
        if text:
            yield text, any(character.isalnum() for character in text)
        if start < 0:
            return
        place = _end(source, start)
        yield source[start:place], False


def _end(source: str, start: int) -> int:
    """The place after the tag, comment or raw element that starts here."""
    if source.startswith("<!--", start):
        return _after(source, "-->", start)
    if raw := RAW.match(source, start):
        closed = re.compile(f"</{raw[1]}", re.IGNORECASE).search(source, start)
        return _after(source, ">", closed.start()) if closed else len(source)
    return _after(source, ">", start)


def _after(source: str, closing: str, start: int) -> int:
    end = source.find(closing, start)
    return len(source) if end < 0 else end + len(closing)


def _framed(part: str, translation: str) -> str:
    """The translation between the white space of the part."""
    before, after = part[: len(part) - len(part.lstrip())], part[len(part.rstrip()) :]
    return before + html.escape(translation, quote=False) + after
