"""What docs/look.md shows is what its commands and calls give, up to the last digits of another machine."""

import contextlib
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from regard.cli import run

PAGE = (Path(__file__).parent.parent / "docs" / "look.md").read_text("utf-8")
COMMAND = re.compile(r"^    \$ (regard .+)\n((?:    .+\n)*)", re.MULTILINE)
IN_COLOURS = 'regard look "Where is the station?" --text'  # as a terminal shows it, which a pipe is not
COMMANDS = [found for found in COMMAND.findall(PAGE) if found[0] != IN_COLOURS]
CALLS = re.compile(r"^```python\n(.+?)^```\n(?:\n((?:    [^\n]+\n)+))?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+\.\d+")


def alike(said: str, shown: str) -> bool:
    """The same words, and numbers that are as near as two machines' are."""
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (said, shown)]
    words = [NUMBER.sub("0.0", text).split() for text in (said, shown)]
    return words[0] == words[1] and numbers[0] == pytest.approx(numbers[1], abs=0.011)


def parted(command: str) -> tuple[list[str], str]:
    """What follows `regard`, and which of its lines are shown: those that grep finds."""
    asked, _, found = command.partition(" | ")
    asked, _, _ = asked.partition(" > ")
    grep = shlex.split(found)
    assert grep[:1] in ([], ["grep"])
    return shlex.split(asked)[1:], grep[-1] if grep else ""


@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command_says_what_the_page_shows(command, shown, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    arguments, wanted = parted(command)
    run(arguments)
    said = "\n".join(capsys.readouterr())
    if " > " in command:
        assert json.loads(said)
        return
    lines = "\n".join(line for line in said.splitlines() if re.search(wanted, line))
    assert alike(lines, shown), said


def test_a_call_gives_what_the_page_shows(tmp_path, monkeypatch):
    """One after the other, as in a session; but for those that need a model that somebody trained."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    count = 0
    for code, shown in CALLS.findall(PAGE):
        if "runs/" in code:
            continue
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(code, names)
        assert alike(said.getvalue(), shown), said.getvalue()
        count += 1
    assert count == 5
