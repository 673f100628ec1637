"""Placeholders: characters in a text, each in place of a part of a document that is not translated.

They are of the last plane for private use, so that a document hardly has one of its own.
"""

from collections.abc import Iterator, Mapping

FIRST, LAST = 0x100000, 0x10FFFD
PLACEHOLDER = f"[{chr(FIRST)}-{chr(LAST)}]"  # a regular expression


def placeholders(source: str) -> Iterator[str]:
    """The placeholders that a document does not have."""
    own = {*source}
    return (each for each in map(chr, range(FIRST, LAST + 1)) if each not in own)


def restored(text: str, kept: Mapping[str, str]) -> str:
    """A text with what its placeholders stand for; what it has no placeholder of comes at its end."""
    for placeholder, source in kept.items():
        text = text.replace(placeholder, source) if placeholder in text else f"{text} {source}"
    return text


def is_placeholder(character: str) -> bool:
    """True for one of all placeholders."""
    return FIRST <= ord(character) <= LAST
