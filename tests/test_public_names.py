"""The public names of each package: they can be imported, are documented, and mean one thing."""

import importlib
import inspect
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = runpy.run_path(str(ROOT / "tools/api_page.py"), run_name="api_page")
PACKAGES = [importlib.import_module(name) for name in PAGE["packages"]()]
NAMES = [(package, name) for package in PACKAGES for name in PAGE["public_names"](package)]
LIBRARY = {"layers", "models", "data", "training", "decoding", "inspection", "weights"}


def test_the_packages_of_the_library_have_names():
    assert {f"regard.{name}" for name in LIBRARY} <= {package.__name__ for package in PACKAGES}
    assert all(len(PAGE["public_names"](package)) > 5 for package in PACKAGES)


each_package = pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)


@each_package
def test_a_name_has_a_line_of_its_own_about_it(package):
    names = PAGE["public_names"](package)
    assert not [name for name in names if len(PAGE["line_about"](package, name)) <= 10]


@each_package
def test_a_name_is_not_that_of_a_module(package):
    """Otherwise it would mean the one or the other, depending on what was imported before."""
    assert not {*PAGE["public_names"](package)} & {
        each.name for each in pkgutil.iter_modules(package.__path__)
    }


def test_a_signature_names_its_parameters():
    """Those of `*names` and `**names` are described; what is only inherited from is not called."""
    found = [(package.__name__, name, getattr(package, name)) for package, name in NAMES]
    assert not [f"{package}.{name}: {each}" for package, name, value in found for each in undescribed(value)]


def undescribed(value):
    """Parameters `*names` and `**names` of something public of which its docstring says nothing."""
    is_interface = inspect.isclass(value) and (inspect.isabstract(value) or getattr(value, "_is_protocol", 0))
    if is_interface or not (inspect.isclass(value) or inspect.isroutine(value)):
        return []
    return [
        each
        for each in inspect.signature(value).parameters.values()
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        and not re.search(rf"\b{each.name}\b", inspect.getdoc(value) or "")
    ]


@each_package
def test_a_star_imports_the_names_and_no_others(package):
    found = {}
    exec(f"from {package.__name__} import *", found)
    assert {*found} - {"__builtins__"} == {*PAGE["public_names"](package)}


def test_the_page_lists_the_names():
    assert PAGE["PAGE"].read_text("utf-8") == PAGE["page"]()  # else: python tools/api_page.py


def test_help_describes_each_parameter_once():
    for package, name in NAMES:
        arguments = (inspect.getdoc(getattr(package, name)) or "").partition("Args:")[2].partition("\n\n")[0]
        described = re.findall(r"^    (\w+):", arguments, re.MULTILINE)
        assert len(described) == len({*described}), (package.__name__, name, described)
