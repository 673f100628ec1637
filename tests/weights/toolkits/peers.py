"""Pythons that have a toolkit, for tests that compare with its own code; fixtures that it has made."""

import contextlib
import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.weights import pickled, unpickle

HERE = Path(__file__).parent
FIXTURES = HERE / "fixtures"


def made_by(toolkit: str, out: Path) -> list[Path]:
    """The checkpoints that `make_TOOLKIT.py` makes with the toolkit's own code, one folder for each.

    The test is skipped unless REGARD_PEER_TOOLKIT names a Python in which the toolkit is installed.
    """
    python = os.environ.get(f"REGARD_PEER_{toolkit.upper()}")
    if python is None:
        pytest.skip(f"REGARD_PEER_{toolkit.upper()} names no Python that has {toolkit}")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([python, str(HERE / f"make_{toolkit}.py"), str(out)], check=True, env=environment)
    return sorted(path for path in out.iterdir() if path.is_dir())


@contextlib.contextmanager
def unpickled_here() -> Iterator[None]:
    """Pickles are read in this process, instead of one that is started for each."""

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = unpickle.main(*command[3:])
        return subprocess.CompletedProcess(command, code, "", errors.getvalue())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pickled, "subprocess", SimpleNamespace(run=run))
        yield
