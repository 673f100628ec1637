"""HTML keeps everything but the texts between its tags."""

import html
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.documents.markup import Markup

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
    "1 < 2": ["1 < 2"],
    "<p title='a > b'>this</p>": ["this"],
    "<p title=it's>this</p>, that's it": ["this", ", that's it"],
    "<a title='open>this": ["this"],
    "<p> — </p>": [],
    "<p>&mdash;&nbsp;</p>": [],
}


@pytest.mark.parametrize("page", PAGES)
def test_the_texts_of_a_page(page):
    assert Markup(page).texts == PAGES[page]


KEPT = {
    '<p translate="no">not this</p>this': ["this"],
    "<P Translate=NO>not this</P>this": ["this"],
    "<p class='a notranslate b'>not this</p>this": ["this"],
    "<p class=notranslated>this</p>": ["this"],
    "<p data-translate='no'>this</p>": ["this"],
    "<p title='translate=no'>this</p>": ["this"],
    "<p translate='maybe'>this</p>": ["this"],
    "<p translate=yes translate=no>this</p>": ["this"],
    "<p translate>this</p>": ["this"],
    "a <span translate=no>not <b>this</b> <span>nor</span> this</span> b": ["a", "b"],
    "<div translate=no>not<p translate=yes>this</p>not</div>this": ["this", "this"],
    "<div translate=no>not<p translate=''>this</p>not</div>this": ["this", "this"],
    "<div translate=no>not<p class=notranslate translate=yes>not</p></div>": [],
    "<div translate=no>not<br>not<img src=a translate=yes>not</div>this": ["this"],
    "<br translate=no>this<span translate=no />not</span>this": ["this", "this"],
    "<div translate=no><code translate=yes>this</code>not</div>this": ["this", "this"],
    "<div translate=no>not<pre translate=yes>this</pre>not<p>not</p></div>": ["this"],
    "<code>not<code>not</code>not</code>this": ["this"],
    "<table><tbody translate=no><tr><td>not<tbody><tr><td>this</table>": ["this"],
    "<p translate=no>not<figure>this</figure>": ["this"],
    "<p translate=no>not</i>not</p></p>this": ["this"],
    "<ul><li translate=no>not<li>this</ul>this": ["this", "this"],
    "<p translate=no>not<ul><li>this</ul>": ["this"],
    "<div><p translate=no>not</div>this": ["this"],
    "<table><tr><td translate=no>not<td>this<tr translate=no><td>not<tr><td>this": ["this", "this"],
    "<span translate=no>open for ever <b>not</b>": [],
    "<div translate=no><!-- </div> --><script>'</div>'</script>not</div>this": ["this"],
    "<pre translate=yes>this</pre><code translate=yes>this</code>": ["this", "this"],
    "<script translate=yes>not</script><div translate=no><code translate=yes>this</code></div>": ["this"],
}


@pytest.mark.parametrize("page", KEPT)
def test_what_a_page_says_is_not_to_be_translated_stays_as_it_is(page):
    assert Markup(page).texts == KEPT[page]
    filled = Markup(page).filled(Markup(page).texts)
    assert filled.replace("&lt;", "<").replace("&gt;", ">") == page


@pytest.mark.parametrize("edge", ["&nbsp;", "\u00a0", "&#160;", " &nbsp; "])
def test_spaces_at_the_edges_of_a_text_stay_however_they_are_written(edge):
    assert Markup(f"<b>{edge}a{edge}</b>").texts == ["a"]
    filled = Markup(f"<b>{edge}a{edge}</b>").filled(["b"])
    assert html.unescape(filled) == html.unescape(f"<b>{edge}b{edge}</b>")


def test_translations_take_the_places_of_the_texts_and_are_escaped():
    assert Markup("<p> a </p>\n<b>b</b>").filled(["<x>", "y & z"]) == "<p> &lt;x&gt; </p>\n<b>y &amp; z</b>"


@given(
    st.lists(st.sampled_from([*"<>ab!- /&;='\"\n", "pre", "<script", "translate=no", "&nbsp;"])).map("".join)
)
def test_the_texts_themselves_give_the_same_page_apart_from_escapes(page):
    markup = Markup(page)
    once = markup.filled(markup.texts)
    assert Markup(once).filled(Markup(once).texts) == once


@pytest.mark.parametrize(
    "part",
    ["<", "<!--", "<script>", "<b>a", "&", "</", "<b>a</i>", "<b c=", "<b c='>", "<p translate=no>a", " "],
)
def test_no_page_takes_long(part):
    begun = time.monotonic()
    Markup(part * (100_000 // len(part))).filled([""] * 100_000)
    assert time.monotonic() - begun < 5
