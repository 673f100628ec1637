"""HTML keeps everything but the texts between its tags."""

import html
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.documents.inline_tags import words_of
from regard.documents.markup import Markup
from regard.documents.placeholders import PLACEHOLDER
from regard.documents.tag_rules import TagRules

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


XML = TagRules(xml=True, ignored=frozenset("x"))
HTML = TagRules(ignored=frozenset(["x", "p"]))
WITH_PLACEHOLDERS = {  # of what is not translated, written as #
    ("a <x>b</x> c", HTML): ["a # c"],
    ("a <X><x>b</x><b>b</b></X><x>b</x>", HTML): ["a ##"],
    ("a <x>b <i translate=yes>c</i></x> d", HTML): ["a", "c", "d"],
    ("a <x>b<br></x> c <p>b</p> d", HTML): ["a", "c", "d"],
    ("<x>b</x> <code>b</code>", HTML): [],
    ("a <span translate=no>b</span>, <code>b</code>.", HTML): ["a #, #."],
    ("a <x>b <x>b</x> c", HTML): ["a"],
    ("a \U00100000 <x>b</x>", HTML): ["a # #"],
    ("a <x>b &amp; <![CDATA[b]]></x> <x/> <p>c</p>", XML): ["a # # c"],
}


@pytest.mark.parametrize(("page", "rules"), WITH_PLACEHOLDERS)
def test_an_inline_element_that_is_not_translated_is_a_placeholder_of_its_sentence(page, rules):
    markup = Markup(page, rules, whole=True, keeps=True)
    texts = [re.sub(PLACEHOLDER, "#", text) for text in markup.texts]
    assert texts == WITH_PLACEHOLDERS[page, rules]
    links = [[(span, span) for span in words_of(text)] for text in markup.texts]
    assert markup.filled(markup.texts, links) == page
    for text in markup.texts:  # each of them once
        assert len({*re.findall(PLACEHOLDER, text)}) == len(re.findall(PLACEHOLDER, text))


def test_placeholders_move_with_the_translation_and_a_lost_one_comes_at_its_end():
    markup = Markup("<b>a <x>b</x></b> c <code>d</code>", HTML, whole=True, keeps=True)
    [text] = markup.texts
    one, other = re.findall(PLACEHOLDER, text)
    links = [(span, span) for span in words_of(text)]
    assert markup.filled([text], [links]) == "<b>a <x>b</x></b> c <code>d</code>"
    assert re.sub("</?b>", "", markup.filled([f"C {other} {one} A"])) == "C <code>d</code> <x>b</x> A"
    assert re.sub("</?b>", "", markup.filled([f"{other}A"])) == "<code>d</code>A <x>b</x>"


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
    [
        "<",
        "<!--",
        "<script>",
        "<b>a",
        "&",
        "</",
        "<b>a</i>",
        "<b c=",
        "<b c='>",
        "<p translate=no>a",
        "<x>",
        "a<x>b</x>",
        " ",
    ],
)
def test_no_page_takes_long(part):
    begun = time.process_time()
    Markup(part * (100_000 // len(part)), HTML, keeps=True).filled([""] * 100_000)
    assert time.process_time() - begun < 5
