"""A limit for the size of files."""

import os

import pytest


@pytest.fixture
def small_files():
    """No file may grow beyond a few hundred bytes, as with `ulimit -f`."""
    if os.name == "nt":
        pytest.skip("a limit of POSIX")
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
