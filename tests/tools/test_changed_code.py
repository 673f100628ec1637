"""A function of a loaded program gets another body, in all places that refer to it, or none gets one."""

import importlib.util
import sys

import pytest

from tests.long.changed_code import ChangedFunction, functions_of
from tests.long.mutation import mutants

pytestmark = pytest.mark.nightly  # as `make mutants` itself is

TEXT = """
def twice(x):
    def inner(y):
        return y + y
    return inner(x)

class Counter:
    def __init__(self):
        self.count = 1

    @property
    def value(self):
        return self.count + 1

    @value.setter
    def value(self, new):
        self.count = new + 10

    class Inner:
        def value(self):
            return super().__class__.__name__ + "!"

def value():
    return 5 + 5
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """It is loaded."""
    file = tmp_path / "loaded_for_a_test.py"
    file.write_text(TEXT, "utf-8")
    specification = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, file.stem, module)
    specification.loader.exec_module(module)
    return module


def mutant_of(change):
    (found,) = (each for each in mutants(TEXT) if each.change == change)
    return found


def exchanged(module, change):
    return mutant_of(change).function(module.__file__).exchange()


def test_all_who_refer_to_a_function_get_the_change(module):
    kept = module.twice
    assert kept(3) == 6
    assert exchanged(module, "twice.inner: y + y -> y - y")
    assert kept(3) == module.twice(3) == 0


def test_of_functions_of_one_name_the_right_one_is_changed(module):
    counter = module.Counter()
    assert exchanged(module, "Counter.value: new + 10 -> new - 10")
    counter.value = 3
    assert (counter.count, counter.value, module.value()) == (-7, -6, 10)
    assert exchanged(module, "Counter.value: self.count + 1 -> self.count - 1")
    assert (counter.value, module.value()) == (-8, 10)


def test_what_is_run_on_import_is_no_function():
    assert mutant_of("Counter.__init__: 1 -> 2").function("file") is not None
    changes = [each for each in mutants("def f(x=1):\n    pass\nd[1] = 2\n") if each.on_import]
    assert changes
    assert all(each.function("file") is None for each in changes)


def test_a_file_that_is_not_loaded_needs_no_change(tmp_path):
    assert ChangedFunction(file=str(tmp_path / "none.py"), name="twice", number=0, text=TEXT).exchange()


def test_a_function_that_is_not_there_is_not_changed(module):
    change = {"file": module.__file__, "number": 0}
    assert not ChangedFunction(name="thrice", text=TEXT + "def thrice(): pass", **change).exchange()
    assert not ChangedFunction(name="twice", text=TEXT + "def twice(x): pass", **change).exchange()
    assert module.twice(3) == 6


def test_functions_within_others_are_left_out():
    names = [code.co_qualname for code in functions_of(compile(TEXT, "file", "exec"))]
    methods = ["Counter.__init__", "Counter.value", "Counter.value", "Counter.Inner.value"]
    assert names == ["twice", *methods, "value"]
