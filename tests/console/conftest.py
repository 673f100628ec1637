"""What the tests of the terminal share: output to files, to a terminal, to one without colours."""

import re

import pytest

from regard.console import streams


@pytest.fixture
def plain(monkeypatch):
    """Nobody looks: output goes into files."""
    use(monkeypatch)
    yield
    forget()


@pytest.fixture
def terminal(monkeypatch):
    """Somebody looks, at 80 columns of every colour."""
    use(monkeypatch, FORCE_COLOR="1", TERM="xterm-256color", COLORTERM="truecolor", COLUMNS="80", LINES="24")
    yield
    forget()


@pytest.fixture
def colourless(monkeypatch):
    """Somebody looks who wants no colour."""
    use(monkeypatch, FORCE_COLOR="1", TERM="xterm-256color", COLUMNS="80", NO_COLOR="1")
    yield
    forget()


def use(monkeypatch, **environment):
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    forget()


def forget():
    streams.stdout.cache_clear()
    streams.stderr.cache_clear()


def uncoloured(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
