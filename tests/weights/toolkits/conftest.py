"""Reading pickles in the process of the tests, which saves the start of one for each."""

import contextlib
import io
import subprocess
from types import SimpleNamespace

import pytest

from regard.weights import pickled, unpickle


@pytest.fixture
def in_this_process(monkeypatch):
    """Checkpoints are unpickled here; other tests start the process."""

    def run(command, **_):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = unpickle.main(*command[3:])
        return subprocess.CompletedProcess(command, code, "", errors.getvalue())

    monkeypatch.setattr(pickled, "subprocess", SimpleNamespace(run=run))
