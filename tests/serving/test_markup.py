"""HTML keeps everything but the texts between its tags."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.serving.markup import Markup

PAGES = {
    "plain": ["plain"],
    "<b>bold</b> text": ["bold", "text"],
    "a &amp; b": ["a & b"],
    "<p title='not this'>this</p>": ["this"],
    "<!-- not <b>this</b> -->this": ["this"],
    "<script>not('this')</script><STYLE>not{this}</STYLE>this": ["this"],
    "<code>not this</code> this": ["this"],
    "<pre>open for ever": [],
    "<b": [],
    "1 < 2": ["1"],
    "<p> — </p>": [],
}


@pytest.mark.parametrize("page", PAGES)
def test_the_texts_of_a_page(page):
    assert Markup(page).texts == PAGES[page]


def test_translations_take_the_places_of_the_texts_and_are_escaped():
    assert Markup("<p> a </p>\n<b>b</b>").filled(["<x>", "y & z"]) == "<p> &lt;x&gt; </p>\n<b>y &amp; z</b>"


@given(st.text(st.sampled_from("<>ab!- /&;scriptpre\n")))
def test_the_texts_themselves_give_the_same_page_apart_from_escapes(page):
    markup = Markup(page)
    once = markup.filled(markup.texts)
    assert Markup(once).filled(Markup(once).texts) == once


@pytest.mark.parametrize("part", ["<", "<!--", "<script>", "<b>a", "&", "</"])
def test_no_page_takes_long(part):
    begun = time.monotonic()
    Markup(part * (100_000 // len(part))).filled([""] * 100_000)
    assert time.monotonic() - begun < 5
