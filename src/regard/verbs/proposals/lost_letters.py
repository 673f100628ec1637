"""Letters that a program wrote as question marks: "Stra?e", "?????? ??? ??".

In scripts without spaces between sentences a question mark stands between letters, so only letters in lower
case count.
"""

import re
from collections.abc import Iterable, Iterator

MIN_WORDS = 3  # different ones with one lost letter each, for a line with one of them to be broken
_LOWER = "[a-z\u00df-\u00f6\u00f8-\u00ff\u03ac-\u03ce\u0430-\u045f]"
_LOST_LETTER = re.compile(rf"{_LOWER}\?+(?={_LOWER})(?!\w*=)")
_LOST_WORDS = re.compile(r"(?<!\S)\?{2,}[.,!]?\s+\?{2,}[.,!]?(?!\S)")
_WORD = re.compile(r"[^\W\d_]+")
_WORDS_WITH_MARKS = re.compile(r"[^\W\d_]+\?+[^\W\d_]+(?:\?+[^\W\d_]+)*")
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+\.\S+")


def without_addresses(text: str) -> str:
    """A line without addresses."""
    return _ADDRESS.sub(" ", text) if "/" in text or "@" in text or "www." in text else text


def has_lost_letters(text: str) -> bool:
    """True for two letters or two neighbouring words that are question marks; one may be a missing space."""
    if "?" not in text:
        return False
    words = without_addresses(text)
    return len(_LOST_LETTER.findall(words)) > 1 or _LOST_WORDS.search(words) is not None


class LostLetters:
    """The words of some lines in which one letter is a question mark, if these are several.

    A question mark may also stand for one with a space after it. Then the parts at both its sides are words,
    which occur elsewhere; of "Stra?e" they do not.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        texts = [*texts]
        self.words = {word for text in texts for word in _suspect_words(text)}
        if len(self.words) >= MIN_WORDS:
            known = {
                word for text in texts for word in _WORD.findall(_WORDS_WITH_MARKS.sub(" ", text).lower())
            }
            self.words = {word for word in self.words if not known.issuperset(filter(None, word.split("?")))}
        if len(self.words) < MIN_WORDS:
            self.words = set[str]()

    def __contains__(self, text: str) -> bool:
        """True for a line with such a word."""
        return bool(self.words) and any(word in self.words for word in _suspect_words(text))


def _suspect_words(text: str) -> Iterator[str]:
    """The words with question marks between their letters, in lower case."""
    if "?" in text:
        words = without_addresses(text)
        yield from (
            found[0].lower()
            for found in _WORDS_WITH_MARKS.finditer(words)
            if _LOST_LETTER.search(words, *found.span())
        )
