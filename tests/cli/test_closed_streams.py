"""An error names a closed standard stream when a command uses it."""

import itertools
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


def test_a_closed_output_is_a_user_error():
    found = regard("--version >&-")
    assert found.returncode == 2
    assert found.stderr.splitlines()[0] == "error: the standard output is closed"
    assert "hint: redirect it to a file" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a disk that is always full")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [
        *itertools.product(["--version", "--help", "recipes", "recipes show dates"], ["", "1"]),
        pytest.param("doctor", "", marks=pytest.mark.nightly),
        ("doctor", "1"),
    ],
)
def test_an_output_on_a_full_disk_is_a_user_error(monkeypatch, arguments, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    found = regard(f"{arguments} >/dev/full")
    assert found.returncode == 2
    first, second = found.stderr.splitlines()
    assert first == "error: the standard output: No space left on device"
    assert second.startswith("hint: redirect it to a disk with free space")


def test_commands_that_need_no_stream_work_without_it():
    assert regard("--version <&-").stdout.startswith("regard ")
    assert regard("--version 2>&-").stdout.startswith("regard ")


def test_a_closed_input_is_reported_when_it_is_read(monkeypatch):
    monkeypatch.setattr(sys, "stdin", ClosedStream("input", "give a TEXT, or --input FILE"))
    with pytest.raises(UserError, match="the standard input is closed") as caught:
        sys.stdin.isatty()
    assert "--input" in caught.value.hint
