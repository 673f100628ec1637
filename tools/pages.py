"""Runs the commands and the code that pages show, and writes below each what it prints now.

.venv/bin/python tools/pages.py docs/generation.md docs/look.md

Only commands that a fresh checkout can run: with the included model, or without any. `git diff` then shows
what has changed, which the sentences around may have to follow.
"""

import contextlib
import io
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.cli import run

COMMAND = re.compile(r"^    \$ (regard .+)\n((?:    .+\n)*)", re.MULTILINE)
CALLS = re.compile(r"^```python\n(.+?)^```\n(?:\n((?:    [^\n]+\n)+))?", re.MULTILINE | re.DOTALL)
ELSEWHERE = re.compile(
    r"runs/|tiny-|corpus\.|notes\.txt|--model (?!en-de)\S|^regard (convert|train|new|data)\b| < "
)
IN_COLOURS = 'regard look "Where is the station?" --text'  # as a terminal shows it, which a pipe is not


def commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a page that a fresh checkout can run, and what is shown below each, indented."""
    for command, shown in COMMAND.findall(text):
        if command != IN_COLOURS and not ELSEWHERE.search(command):
            yield command, shown


def parted(command: str) -> tuple[list[str], str]:
    """What follows `regard`, and which of its lines are shown: those that grep finds."""
    asked, _, found = command.partition(" | ")
    asked, _, _ = asked.partition(" > ")
    grep = shlex.split(found)
    assert grep[:1] in ([], ["grep"]), command
    return shlex.split(asked)[1:], grep[-1] if grep else ""


def printed(command: str) -> str:
    """What a command prints, to both streams, in a new folder."""
    arguments, wanted = parted(command)
    content = io.BytesIO()
    output = io.TextIOWrapper(content, "utf-8", write_through=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        run(arguments)
    lines = content.getvalue().decode("utf-8").splitlines()
    return "\n".join(line for line in lines if re.search(wanted, line))


def calls(text: str) -> Iterator[tuple[str, str, str]]:
    """The code of a page, what is shown below it, and what it prints, in turn, as in a session."""
    names: dict[str, Any] = {}
    for code, shown in CALLS.findall(text):
        if "runs/" not in code:  # a model that somebody trained
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(code, names)  # noqa: S102 (the code of our own pages)
            yield code, shown, output.getvalue()


def renewed(text: str) -> str:
    """A page with what its commands and its code print now."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        found = list(calls(text))
    for code, shown, said in found:
        now = "".join(f"    {line}\n" for line in said.splitlines())
        text = text.replace(f"{code}```\n\n{shown}", f"{code}```\n\n{now}") if shown else text
    for command, shown in commands(text):
        if " > " not in command:
            now = "".join(f"    {line}\n" for line in printed(command).splitlines() if line.strip())
            text = text.replace(f"    $ {command}\n{shown}", f"    $ {command}\n{now}")
            print(command, "" if now == shown else "(changed)", file=sys.stderr, flush=True)
    return text


def main() -> None:
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(renewed(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
