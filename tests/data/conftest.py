"""A limit for the size of files."""

import os
from contextlib import contextmanager

import pytest


@pytest.fixture
def small_files():
    """In `with small_files():` no file may grow beyond a few hundred bytes, as with `ulimit -f`."""
    if os.name == "nt":
        pytest.skip("a limit of POSIX")
    import resource

    @contextmanager
    def limited():  # not for longer: what pytest prints may go to a file
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited
