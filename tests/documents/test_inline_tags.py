"""Inline tags come into a translation by the alignment of both texts."""

import html
import re
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.documents.inline_tags import words_of
from regard.documents.markup import Markup

TAG = re.compile(r"<[^>]*>")


def links_of(source, target, pairs):
    """The spans of linked words: "Haus=house" links the first of these."""
    found = []
    for pair in pairs.split():
        one, other = pair.split("=")
        begin, place = source.index(one), target.index(other)
        found.append(((begin, begin + len(one)), (place, place + len(other))))
    return found


PLACED = [
    ("I have <b>two</b> dogs.", "Ich habe zwei Hunde.", "two=zwei", "Ich habe <b>zwei</b> Hunde."),
    # order changes, elements within elements move together
    (
        "the <i><b>red</b> car</i> here",
        "hier das Auto in Rot",
        "the=das red=Rot car=Auto here=hier",
        "hier das <i>Auto in <b>Rot</b></i>",
    ),
    # an element around all the text stays around it, with its punctuation
    ("<b>Thank you.</b>", "Danke.", "", "<b>Danke.</b>"),
    ("<a href='b'> <b>so</b> it is </a>", "so ist es", "so=so", "<a href='b'> <b>so</b> ist es </a>"),
    # words that are apart: the run with most of them
    ("<b>give up</b> now", "gib jetzt auf", "give=gib up=auf now=jetzt", "<b>gib jetzt auf</b>"),
    # no word is linked: those that are written alike, else one that is near
    ("see <b>Tom 7</b>", "man sieht Tom 7", "see=sieht", "man sieht <b>Tom 7</b>"),
    ("he <b>is</b> it", "das er", "he=er", "<b>das</b> er"),
    # a tag without content is before the word that it was before, or after the one that it was after
    ("a <img src='x'>dog", "ein Hund", "a=ein dog=Hund", "ein <img src='x'>Hund"),
    ("a dog<img>, he", "ein Hund, er", "a=ein dog=Hund he=er", "ein Hund<img>, er"),
    ("a <b><img>big dog</b>", "ein Hund", "a=ein dog=Hund", "ein <b><img>Hund</b>"),
    ("a <u> </u><!-- b -->dog", "ein Hund", "a=ein dog=Hund", "ein <u></u><!-- b -->Hund"),
    # what is not HTML's is inline, and need not be closed
    ("a <x id='1'/>dog", "ein Hund", "a=ein dog=Hund", "ein <x id='1'/>Hund"),
    # a mark is not linked to a word; the last ones belong together
    ('"<b>Go</b>!"', '"Geh!"', "Go=Geh", '"<b>Geh</b>!"'),
    ("go <b>home!</b>", "geh heim!", "go=geh home=heim go=!", "geh <b>heim!</b>"),
    # scripts without spaces
    ("a <b>big</b> dog", "一只大狗", "a=一只 big=大 dog=狗", "一只<b>大</b>狗"),
    ("note<sup>1</sup>", "Anm1", "note=Anm", "Anm<sup>1</sup>"),
    ("a &lt;b> <i>c</i>", "a <b> c", "c=c", "a &lt;b&gt; <i>c</i>"),
]


@pytest.mark.parametrize(("page", "target", "pairs", "wanted"), PLACED, ids=lambda value: value[:30])
def test_tags_are_around_the_words_that_belong_to_theirs(page, target, pairs, wanted):
    markup = Markup(page, whole=True)
    [source] = markup.texts
    assert markup.filled([target], [links_of(source, target, pairs)]) == wanted


PASSAGES = {
    "<p>one <b>two</b></p><p>three</p>": ["one two", "three"],
    "one<br>two <i>three": ["one", "two", "three"],
    "one <b>two <i>three</b> four</i>": ["one", "two", "three", "four"],
    "one <b>two<p>three</b> four": ["one", "two", "three", "four"],
    "one <span translate=no>not</span> <b>two</b> three": ["one", "two three"],
    "one <b><code>not</code></b> two": ["one", "two"],
    "one <new-tag>two</new-tag> three": ["one two three"],
    "<td>one <b>two</b><td>three": ["one two", "three"],
    "<b>": [],
    "<b> — </b>": [],
    "&nbsp;<b>one</b>&nbsp;": ["one"],
}


@pytest.mark.parametrize("page", PASSAGES)
def test_a_text_reaches_from_a_tag_that_splits_to_the_next(page):
    markup = Markup(page, whole=True)
    assert markup.texts == PASSAGES[page]
    assert TAG.sub("", markup.filled(markup.texts)) == TAG.sub("", page)


WORDS = st.sampled_from(["a", "Tom", "&amp;", "3", " ", ". ", "x;", "\n", "—", "大狗"])
INLINE = st.sampled_from(["b", "i", "a href='&amp;b'", 'u title="x > y"', "new-tag"])
EMPTY = st.sampled_from(["<img src=a>", "<wbr>", "<!-- b -->", "<x/>"])


def element(content):
    return st.tuples(INLINE, content).map(lambda each: f"<{each[0]}>{each[1]}</{each[0].split()[0]}>")


PAGES = st.recursive(
    WORDS | EMPTY, lambda inner: element(st.lists(inner, max_size=4).map("".join)), max_leaves=12
)
SPANS = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda each: tuple(sorted(each)))
TAGS = re.compile(r"""<!--.*?-->|<(?:[^<>"']|"[^"]*"|'[^']*')*>""")


@given(
    st.lists(PAGES, max_size=6).map("".join),
    st.lists(WORDS, max_size=8).map("".join),
    st.lists(st.tuples(SPANS, SPANS), max_size=8),
)
def test_each_tag_comes_once_balanced_and_the_text_is_the_translation(page, written, links):
    markup = Markup(page, whole=True)
    translation = html.unescape(written).strip()
    filled = markup.filled([translation] * len(markup.texts), [links] * len(markup.texts))
    assert Counter(TAGS.findall(filled)) == Counter(TAGS.findall(page))
    opened = []
    for tag in TAGS.findall(filled):
        if tag.startswith("</"):
            assert opened.pop() == tag[2:-1]
        elif not tag.endswith(("/>", "-->", "a>")) and tag != "<wbr>":
            opened.append(tag[1:-1].split()[0])
    assert not opened
    if markup.texts:
        assert html.unescape(TAGS.sub("", filled)).strip() == translation


@pytest.mark.parametrize(
    "part", ["<b>a</b>", "<b>a", "<b>a</i>", "a<img>", "<b><i>a</b></i>", "<b>", "</b>a"]
)
@pytest.mark.parametrize("number", [190, 2_000])
def test_no_passage_takes_long(part, number):
    begun = time.process_time()
    page = part * number
    for one in (page, "<i>" * (number // 2) + "a" + "</i>" * (number // 2)):
        markup = Markup(one, whole=True)
        texts = [text.replace("a", "a ") for text in markup.texts]
        markup.filled(texts, [[((0, 1), (0, 1))] for _ in texts])
    assert time.process_time() - begun < 5


def test_words_and_marks():
    assert [slice(*each) for each in words_of("l'eau, E-Mail 3a!")] == [
        *(slice(0, 5), slice(5, 6), slice(7, 13), slice(14, 15), slice(15, 16), slice(16, 17))
    ]
