"""A standard stream that is closed is told by name, where it is needed."""

import os
import subprocess
import sys

import pytest

from regard.cli.closed_streams import ClosedStream
from regard.errors import UserError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a shell that closes streams")


def regard(arguments: str) -> subprocess.CompletedProcess[str]:
    command = f"exec {sys.executable} -m regard {arguments}"
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)


def test_a_closed_output_is_an_error_of_the_user():
    found = regard("--version >&-")
    assert found.returncode == 2
    assert found.stderr.splitlines()[0] == "error: the standard output is closed"
    assert "hint: let it go to a file" in found.stderr
    assert "Traceback" not in found.stderr


def test_whoever_needs_no_stream_works_without():
    assert regard("--version <&-").stdout.startswith("regard ")
    assert regard("--version 2>&-").stdout.startswith("regard ")


def test_a_closed_input_is_told_to_whoever_would_read_it(monkeypatch):
    monkeypatch.setattr(sys, "stdin", ClosedStream("input", "give a TEXT, or --input FILE"))
    with pytest.raises(UserError, match="the standard input is closed") as caught:
        sys.stdin.isatty()
    assert "--input" in caught.value.hint
