"""What is registered is found by its name beside what regard has; an unknown name is refused with a hint."""

import importlib
import importlib.metadata
import sys
from importlib.metadata import EntryPoint

import pytest

from regard import registry
from regard.errors import UserError
from regard.registry import Registry


@pytest.fixture
def colours():
    return Registry("colour", {"red": 1, "green": 2}, how="register_colour")


def test_registered_names_are_listed_with_regards_own(colours):
    assert colours.register("blue")(3) == 3
    assert (colours["blue"], colours["red"]) == (3, 1)
    assert list(colours) == ["red", "green", "blue"]
    assert "blue" in colours
    assert len(colours) == 3


def test_the_last_registration_counts(colours):
    colours.register("blue")(3)
    colours.register("blue")(4)
    assert colours["blue"] == 4


@pytest.mark.parametrize("name", ["red", "", len, None])  # a function: a decorator without its name
def test_taken_and_empty_names_are_refused(colours, name):
    with pytest.raises(UserError, match="colour"):
        colours.register(name)


def test_an_unknown_name_is_no_key_and_the_hint_has_the_nearest_one(colours):
    with pytest.raises(KeyError):
        colours["gren"]
    assert "gren" not in colours
    assert "'green'" in colours.hint("gren")
    assert "register_colour" in colours.hint("gren")


@pytest.fixture
def extension(tmp_path, monkeypatch, colours):
    """A module that an installed package would name; what it does when it is imported is the test's."""
    points = []

    def install(name, code):
        (tmp_path / f"{name}.py").write_text(code)
        points.append(EntryPoint(name, name, registry.GROUP))

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: [*points])
    monkeypatch.setattr(registry, "_imported", set())
    yield install
    for point in points:
        sys.modules.pop(point.value, None)


def test_an_installed_extension_is_imported_when_a_name_is_unknown_and_only_then(
    extension, colours, monkeypatch
):
    monkeypatch.setitem(sys.modules, "the_colours", type(sys)("the_colours"))
    sys.modules["the_colours"].colours = colours
    extension("an_extension", "from the_colours import colours\ncolours.register('violet')(5)\n")
    assert colours["red"] == 1
    assert "an_extension" not in sys.modules
    assert colours["violet"] == 5


def test_an_extension_that_cannot_be_imported_is_named(extension, colours):
    extension("a_broken_extension", "import no_such_module_anywhere\n")
    with pytest.raises(UserError, match=r"a_broken_extension.*no_such_module_anywhere"):
        colours["violet"]


def test_what_an_extension_registers_is_known_to_other_processes_and_what_a_script_registers_is_not(
    extension, colours, monkeypatch
):
    monkeypatch.setitem(sys.modules, "the_colours", type(sys)("the_colours"))
    sys.modules["the_colours"].colours = colours
    extension("an_extension", "from the_colours import colours\ncolours.register('violet')(5)\n")
    colours.register("blue")(3)
    importlib.import_module("an_extension")  # by the script itself, before any name was looked up
    known = {name: colours.is_installed(name) for name in ("red", "violet", "blue", "yellow")}
    assert known == {"red": True, "violet": True, "blue": False, "yellow": False}


def test_two_installed_packages_cannot_have_one_name(colours, monkeypatch):
    packages = iter([{"one", "tests"}, {"one"}, {"tests"}, {"two", "tests"}])
    points = [EntryPoint(name, f"{name}.things", registry.GROUP) for name in ("one", "two")]
    monkeypatch.setattr(registry.importlib.metadata, "entry_points", lambda group: points)
    monkeypatch.setattr(registry, "_running_packages", lambda: next(packages))
    colours.register("blue")(3)
    colours.register("blue")(4)
    colours.register("grey")(5)
    with pytest.raises(UserError, match="two installed packages register the colour 'blue': one and two"):
        colours.register("blue")(6)
    assert colours["blue"] == 4
