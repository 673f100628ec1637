"""A shell that asks for completions gets the names of commands and options."""

import os
import subprocess
import sys

import pytest


def completions(line):
    words = line.split(" ")
    asked = {"_REGARD_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    program = [
        sys.executable,
        "-c",
        "from regard.cli import main; import sys; sys.argv[0] = 'regard'; main()",
    ]
    done = subprocess.run(program, env=os.environ | asked, capture_output=True, text=True)
    return [each.partition(",")[2] for each in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("regard tra", ["train", "translate", "transcribe"]),
        ("regard train --dry", ["--dry-run"]),
        ("regard train --device c", ["cpu", "cuda"]),
        ("regard data sh", ["show"]),
    ],
)
def test_a_name_is_completed(line, found):
    assert sorted(completions(line)) == sorted(found)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_the_shell_is_written(shell):
    program = [
        sys.executable,
        "-c",
        "from regard.cli import main; import sys; sys.argv[0] = 'regard'; main()",
    ]
    asked = {"_REGARD_COMPLETE": f"{shell}_source"}
    done = subprocess.run(program, env=os.environ | asked, capture_output=True, text=True)
    assert "_REGARD_COMPLETE" in done.stdout
    assert "regard" in done.stdout
    assert not done.stderr.strip() or shell == "bash"  # click warns of an old bash
