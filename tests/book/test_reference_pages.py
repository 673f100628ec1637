"""Errors, formats and glossary: what the pages name is there."""

import re
from pathlib import Path

import pytest

from regard import errors

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs/reference"
GLOSSARY = (REFERENCE / "glossary.md").read_text("utf-8")
TERMS = dict(re.findall(r"^(\S[^\n]*)\n((?:  [^\n]+\n)+)", GLOSSARY.partition("```{glossary}\n")[2], re.M))
SOURCE = re.compile(r"\{source\}`([^`]+)`")


def test_the_table_has_every_exception():
    pytest.importorskip("sphinx", reason="the book needs `pip install 'regard[book]'`")
    from error_table import described

    rows = list(described(errors.RegardError))
    classes = {name for name, value in vars(errors).items() if isinstance(value, type) and name[0] != "_"}
    assert {row[0].strip("`") for row in rows} == classes - {"Any", "Iterable"}
    assert all(about for _, about, _, _ in rows)
    codes = {row[0].strip("`"): row[2] for row in rows}
    assert (codes["RunError"], codes["UserError"], codes["RecipeError"]) == ("1", "2", "2")


def test_each_promise_names_a_test_that_is_there():
    page = (REFERENCE / "formats.md").read_text("utf-8").partition("## Promises")[2]
    named = re.findall(r"`(tests/[\w/.]+)`", page)
    assert len(named) >= 8
    assert not [name for name in named if not (ROOT / name).exists()]


def test_the_glossary_has_the_terms_of_the_field_in_order():
    assert len(TERMS) >= 60
    assert list(TERMS) == sorted(TERMS, key=str.lower)
    assert {"attention", "beam search", "padding", "residual connection", "LoRA"} <= {*TERMS}


@pytest.mark.parametrize("term", TERMS)
def test_a_term_is_short_and_names_where_to_read_on(term):
    text = " ".join(TERMS[term].split())
    assert "](https://" in text
    words = re.sub(r"\[[^]]*\]\([^)]*\)|\{source\}`[^`]*`", "", text).split()
    assert len(words) <= 45, len(words)
    for name in SOURCE.findall(text):
        assert (ROOT / "src/regard" / name).is_file()
    for name in re.findall(r"\{term\}`([^`]+)`", text):
        assert name in TERMS


@pytest.mark.nightly
def test_each_link_to_the_source_leads_to_a_page(book):
    for name in SOURCE.findall(GLOSSARY):
        assert (book.parent / f"_modules/regard/{name.removesuffix('.py')}.html").is_file(), name
