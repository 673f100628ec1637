"""XML keeps everything but its texts, and an element next to words is inline."""

from xml.etree import ElementTree

import pytest

from regard.documents.markup import Markup
from regard.documents.tag_rules import TagRules
from regard.documents.xml_outline import outlined

PAGES = {  # with their texts
    '<?xml version="1.0"?>\n<doc><par>One.</par><par>Two.</par></doc>': ["One.", "Two."],
    "<par>One <b><i>two</i></b> three.</par><i>Four.</i>": ["One two three.", "Four."],
    "One <x/>two<!-- not -->.": ["One two."],
    "<x><x/>One</x><P>Two</P><p>three</p>": ["One", "Two", "three"],
    "<p>a &lt; b &amp; <![CDATA[c < d]]></p>": ["a < b & c < d"],
    "<p>&#160;One</p><_n>Two</_n><ä>Three</ä>": ["One", "Two", "Three"],
    "<?a b > c?><code>this<br>that</br></code><script>this</script>": ["thisthat", "this"],
    "<p t='a > b'>One</p>": ["One"],
    '<p translate="no">not<b>not</b></p><p>One</p>': ["One"],
    "no tags": ["no tags"],
}


def markup(page, **rules):
    return Markup(page, outlined(page, TagRules(xml=True, **rules)), whole=True)


def parsed(page):
    """The tags, attributes and texts of a page."""
    body = page.removeprefix('<?xml version="1.0"?>')
    found = ElementTree.fromstring(f"<root>{body}</root>")
    return [(each.tag, each.attrib) for each in found.iter()], "".join(found.itertext())


@pytest.mark.parametrize("page", PAGES)
def test_an_element_next_to_words_is_inline_and_others_split(page):
    found = markup(page)
    assert found.texts == PAGES[page]
    links = [[((n, n + 1), (n, n + 1)) for n in range(len(text))] for text in found.texts]
    assert parsed(found.filled(found.texts, links)) == parsed(page)


def test_the_rules_of_a_request_come_first():
    page = "<doc>One <b>two</b> three. <n>Four</n></doc><par>Five</par>"
    assert markup(page).texts == ["One two three. Four", "Five"]
    assert markup(page, splitting=frozenset({"b"})).texts == ["One", "two", "three. Four", "Five"]
    assert markup(page, ignored=frozenset({"b", "par"})).texts == ["One", "three. Four"]
    assert markup(page, inline=frozenset({"par", "doc"})).texts == ["One two three. FourFive"]
    assert markup(page, outline=False).texts == ["One two three. FourFive"]
    assert markup(page, outline=False, splitting=frozenset({"par"})).texts == ["One two three. Four", "Five"]
    assert markup("a <B>b</B><b>c</b>", ignored=frozenset({"b"})).texts == ["a b"]
    assert markup("a <b/>c <b/>", ignored=frozenset({"b"})).texts == ["a", "c"]


@pytest.mark.parametrize(
    "page",
    [
        "a & b",
        "<a>",
        "<a></A>",
        "a < b",
        "&nbsp;",
        "</x><x>",
        "<a b=c/>",
        '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
    ],
)
def test_what_is_no_xml_is_refused(page):
    with pytest.raises(ValueError, match=r"not well-formed XML: .*, line 1, column \d+"):
        outlined(page, TagRules(xml=True))
