"""Garbage collection is off during imports and on again afterwards."""

import gc
import importlib

import pytest

from regard.cli.importing import importing


@pytest.fixture(autouse=True)
def thawed():
    yield
    gc.unfreeze()


def test_garbage_collection_is_off_during_imports_and_skips_their_objects_later():
    frozen = gc.get_freeze_count()
    with importing():
        assert not gc.isenabled()
        came = [[] for _ in range(100)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= frozen + len(came)


def test_garbage_collection_is_on_again_after_a_failure():
    with pytest.raises(ModuleNotFoundError), importing():
        importlib.import_module("no_such_module")
    assert gc.isenabled()
