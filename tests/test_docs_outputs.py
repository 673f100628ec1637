"""What pages such as docs/look.md show is printed, up to the last digits of another machine."""

import json
import re
from pathlib import Path

import pytest

from tools.pages import calls, commands, parted, printed

DOCS = Path(__file__).parent.parent / "docs"
LOOK = (DOCS / "look.md").read_text("utf-8")
NUMBER = re.compile(r"-?\d+\.\d+")
LATER = re.compile(
    r"--npz|--html|^regard plot (?!positions|attention)"
)  # other tests write files and figures


def marks_of(page: str, command: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.nightly] if page == "generation.md" or LATER.search(command) else []


SHOWN = [
    pytest.param(command, shown, id=command, marks=marks_of(name, command))
    for name in ("look.md", "reference/errors.md", "generation.md")
    for command, shown in commands((DOCS / name).read_text("utf-8"))
]


def alike(said: str, shown: str) -> bool:
    """The same words, and numbers that are as near as two machines' are."""
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (said, shown)]
    words = [NUMBER.sub("0.0", text).split() for text in (said, shown)]
    return words[0] == words[1] and numbers[0] == pytest.approx(numbers[1], abs=0.011)


@pytest.mark.parametrize(("command", "shown"), SHOWN)
def test_a_command_prints_what_the_page_shows(command, shown):
    said = printed(command)
    if " > " in command:
        assert json.loads(said)
    else:
        assert alike(said, shown), said


def test_commands_that_grep_show_the_lines_it_finds():
    assert parted('regard look "a b" --text | grep "^x"') == (["look", "a b", "--text"], "^x")
    assert parted("regard look a --json > b.json") == (["look", "a", "--json"], "")


def test_a_call_gives_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = list(calls(LOOK))
    assert len(found) == 8
    for _, shown, said in found:
        assert alike(said, shown), said
