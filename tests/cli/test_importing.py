"""Garbage collection is off during imports and on again afterwards."""

import gc
import importlib
import subprocess
import sys
import weakref

import pytest

from regard.cli.importing import _freeze_once, importing


@pytest.fixture(autouse=True)
def first_command():
    """As if no command had run in this process."""
    _freeze_once.cache_clear()
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


def test_garbage_of_a_command_is_collected_after_the_next_one():
    """Each command kept all of the earlier ones, with their models: 40 MB a command in a notebook."""
    with importing():
        pass
    garbage = Cycle()
    alive = weakref.ref(garbage)
    del garbage
    with importing():
        pass
    gc.collect()
    assert alive() is None


class Cycle:
    """Garbage that only a collection finds."""

    def __init__(self):
        self.itself = self


def test_a_translation_imports_nothing_that_others_need():
    """Half of the start of a first translation was spent on modules that it did not use."""
    program = (
        "import sys, regard.verbs.translate;"
        "print(*{'sacrebleu', 'markdown_it', 'regard.training.settings', 'regard.weights.pretrained',"
        " 'regard.exports.certificate'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
