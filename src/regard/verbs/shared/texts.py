"""Checking the texts of a call: one str, or several, before any work starts."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from regard.errors import DataError

OneOrSeveral = str | list[str] | list[list[str]]  # the answer to a text or to several, or n to each
IN_A_LIST = "put it into a list: [text]"


def strings(texts: Any) -> Iterator[str]:
    """The texts; a str alone is one text. A list or a tuple is checked at once, an iterator as it is read.

    Raises:
        DataError: a text is not a str.
    """
    return several([texts] if isinstance(texts, str) else texts)


def several(texts: Any, hint: str = IN_A_LIST) -> Iterator[str]:
    """The texts. A str alone is refused: as an iterable it would be its characters.

    `hint`: the hint of that error.

    Raises:
        DataError: a text is not a str, or `texts` is one.
    """
    refuse_single_str(texts, hint)
    refuse_non_texts(texts)
    return _checked(texts)


def refuse_single_str(texts: Any, hint: str = IN_A_LIST) -> None:
    """Raise a DataError if a str stands for several texts."""
    if isinstance(texts, str):
        raise DataError(f"{shown(texts)} is one text, not several", hint)


def refuse_non_texts(texts: Any) -> None:
    """Raise a DataError if this is neither a str nor an iterable of them; iterators are checked later."""
    if isinstance(texts, Path):
        raise DataError(f"{texts} is a path, not a text", "give its lines, or call the verb for files")
    if isinstance(texts, bytes | bytearray):
        raise DataError(f"a text is {type(texts).__name__}, not a string", "decode it: text.decode('utf-8')")
    if isinstance(texts, Mapping):
        raise DataError(
            f"a {type(texts).__name__} of names and values is not a text, nor several",
            "give a list, such as list(texts.values())",
        )
    if not isinstance(texts, Iterable):
        raise DataError(f"a text is {type(texts).__name__}, not a string", "give a str, or several")
    if isinstance(texts, list | tuple):
        for number, text in enumerate(texts, start=1):
            refuse_non_str(text, number)


def refuse_non_str(text: Any, number: int) -> None:
    """Raise a DataError if this is not a str."""
    if not isinstance(text, str):
        raise DataError(f"text {number} is {type(text).__name__}, not a string", "give each as a str")


def _checked(texts: Iterable[Any]) -> Iterator[str]:
    for number, text in enumerate(texts, start=1):
        refuse_non_str(text, number)
        yield text


def shown(text: str) -> str:
    """The text as a message quotes it, cut at 40 characters."""
    return repr(text if len(text) <= 40 else f"{text[:40]}...")
