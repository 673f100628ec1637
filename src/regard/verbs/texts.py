"""Texts as callers give them: one, or several; whatever is none is refused by name before work starts."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from regard.errors import DataError

IN_A_LIST = "put it into a list: [text]"


def strings(texts: Any) -> Iterator[str]:
    """One text, or the texts of several, of which a list or a tuple is checked as a whole at once.

    Raises:
        DataError: what is given, or one of it, is no string.
    """
    return several([texts] if isinstance(texts, str) else texts)


def several(texts: Any, hint: str = IN_A_LIST) -> Iterator[str]:
    """The texts of several. A text alone is refused: as an iterable it is its characters, one by one.

    `hint`: what a caller is told to do with one.

    Raises:
        DataError: what is given, or one of it, is no string.
    """
    refuse_one(texts, hint)
    refuse_other(texts)
    return _checked(texts)


def refuse_one(texts: Any, hint: str = IN_A_LIST) -> None:
    """Raise a DataError where one text stands for several."""
    if isinstance(texts, str):
        raise DataError(f"{_shown(texts)} is one text, not several", hint)


def refuse_other(texts: Any) -> None:
    """Raise a DataError where this is neither a text nor several; what an iterator brings is seen later."""
    if isinstance(texts, Path):
        raise DataError(f"{texts} is a path, not a text", "give its lines, or call the verb for files")
    if isinstance(texts, bytes | bytearray):
        raise DataError(f"a text is {type(texts).__name__}, not a string", "decode it: text.decode('utf-8')")
    if not isinstance(texts, Iterable):
        raise DataError(f"a text is {type(texts).__name__}, not a string", "give a str, or several")
    if isinstance(texts, list | tuple):
        for number, text in enumerate(texts, start=1):
            refuse_no_text(text, number)


def refuse_no_text(text: Any, number: int) -> None:
    if not isinstance(text, str):
        raise DataError(f"text {number} is {type(text).__name__}, not a string", "give each as a str")


def _checked(texts: Iterable[Any]) -> Iterator[str]:
    for number, text in enumerate(texts, start=1):
        refuse_no_text(text, number)
        yield text


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}...")
