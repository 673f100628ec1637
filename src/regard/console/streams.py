"""The consoles of stdout and stderr; lines of results, notes and warnings."""

import functools

from rich.console import Console
from rich.text import Text


@functools.cache
def stdout() -> Console:
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)


@functools.cache
def stderr() -> Console:
    """The shared console of stderr, so that notes appear above a progress bar."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def printable(text: str) -> str:
    """The text with control characters replaced by spaces."""
    return "".join(character if character.isprintable() else " " for character in text)


def is_terminal() -> bool:
    """True if stdout is a terminal."""
    return stdout().is_terminal


def notes_to_terminal() -> bool:
    """True if stderr is a terminal."""
    return stderr().is_terminal


def say(text: str) -> None:
    """Print a result to stdout."""
    stdout().print(Text(text))


def note(text: str) -> None:
    """Print a note to stderr."""
    stderr().print(Text(printable(text)))


def warn(text: str) -> None:
    """Print a warning to stderr."""
    stderr().print(Text.assemble(("warning:", "bold yellow"), " ", printable(text)))
