"""Reading pickles in the process of the tests, which saves the start of one for each."""

import pytest

from tests.weights.toolkits.peers import unpickled_here


@pytest.fixture
def in_this_process():
    """Checkpoints are unpickled here; other tests start the process."""
    with unpickled_here():
        yield
