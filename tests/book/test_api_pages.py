"""The API reference: a page for each public package, docstrings as they are meant, readable types."""

import html
import importlib
import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="the book needs `pip install 'regard[book]'`")

from public_names import NO_PYTHON, as_rst, described, escaped

ROOT = Path(__file__).parents[2]
PAGE = runpy.run_path(str(ROOT / "tools/api_page.py"), run_name="api_page")
PAGES = {  # package -> the name of its page
    package: page.stem
    for page in sorted((ROOT / "docs/reference/api").glob("*.md"))
    for package in re.findall(r"^```\{public-names\} ([\w.]+)$", page.read_text("utf-8"), re.M)
}


def test_each_public_package_has_a_page():
    assert sorted(PAGES) == sorted(PAGE["packages"]())


@pytest.mark.parametrize("name", PAGE["packages"]())
def test_each_name_of_all_is_described(name):
    package = importlib.import_module(name)
    directives = [line for line in described(package) if line.startswith("..")]
    assert sorted(line.rpartition(".")[2] for line in directives) == sorted(package.__all__)


def test_what_is_not_code_has_no_markup():
    assert (
        escaped("a * b of `x * y`, max_len, end_ and |x|") == r"a \* b of `x * y`, max_len, end\_ and \|x\|"
    )


def test_an_indented_block_is_code_and_a_section_stays():
    lines = ["Adds *two*.", "", "    x = 1", "", "    y = 2", "", "Args:", "    *names: each", "    a: a_b"]
    assert as_rst(lines) == [
        r"Adds \*two\*.",
        "",
        ".. code-block:: python",
        "",
        "    x = 1",
        "",
        "    y = 2",
        "",
        "Args:",
        "    *names: each",
        "    a: a_b",
    ]


@pytest.mark.parametrize(
    ("signature", "shown"),
    [
        ("(a: X = <factory>, b: int = 1)", "(a: X = ..., b: int = 1)"),
        ("(stop: F = <function T.<lambda>>, *, b=2)", "(stop: F = ..., *, b=2)"),
        ("(begin: str = '<s>', less: bool = True)", "(begin: str = '<s>', less: bool = True)"),
    ],
)
def test_a_default_that_is_no_python_is_dots(signature, shown):
    assert NO_PYTHON.sub("...", signature) == shown


@pytest.mark.nightly
def test_a_shape_reads_as_it_is_written(book):
    page = re.sub(r"<[^>]*>", "", (book / "reference/api/layers.html").read_text("utf-8"))
    assert "query: Float[Tensor, 'batch heads tgt_len d_head']," in html.unescape(page)


@pytest.mark.nightly
@pytest.mark.parametrize("name", PAGE["packages"]())
def test_the_page_has_each_name(book, name):
    text = (book / f"reference/api/{PAGES[name]}.html").read_text("utf-8")
    for each in importlib.import_module(name).__all__:
        assert f'id="{name}.{each}"' in text, each
