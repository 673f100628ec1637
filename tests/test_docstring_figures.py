"""No docstring has a measured time, size, rate or share: comments have them."""

import ast
import functools
import re
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
UNIT = r"%|ms|s|seconds?|minutes?|hours?|[kMG]i?B|times as|times faster|GFLOP/s|\w+ a second"
MEASURED = re.compile(rf"(?<![\w.,-])(\d+(?:,\d{{3}})*(?:\.\d+)?) ?({UNIT})(?!\w)")
GIVEN = {  # figure -> why it is no measurement
    "95 %": "the level of an interval",
    "99.95 %": "a definition",
    "80 %": "Devlin et al. 2019",
    "10 %": "Devlin et al. 2019",
    "5 %": "the share of a split",
    "2 %": "a definition",
    "20 %": "a bound",
    "1.2 %": "an example",
    "9 MB": "arithmetic: a number for each character of Unicode",
    "200 MB": "arithmetic",
    "64 GB": "arithmetic",
    "4.6 MB": "the size of another package",
}


def docstrings(text: str) -> list[str]:
    """Those of a module, without code."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, documented)]
    return [re.sub(r"`[^`]*`", "", ast.get_docstring(node) or "") for node in nodes]


@functools.cache
def figures_of(path: Path) -> list[str]:
    return figures(path.read_text("utf-8"))


def figures(text: str) -> list[str]:
    return [f"{number} {unit}" for each in docstrings(text) for number, unit in MEASURED.findall(each)]


def test_no_docstring_has_a_measured_figure():
    found = {
        path.relative_to(SOURCE).as_posix(): [each for each in figures_of(path) if each not in GIVEN]
        for path in SOURCE.rglob("*.py")
    }
    assert not {name: each for name, each in found.items() if each}


def test_each_given_figure_is_still_there():
    there = {each for path in SOURCE.rglob("*.py") for each in figures_of(path)}
    assert there >= set(GIVEN)


def test_a_measured_figure_is_found():
    assert figures('"""It takes 5 ms, 2.5 times as long as `3 s`, of 28 x 28, in 8-bit."""') == [
        "5 ms",
        "2.5 times as",
    ]
