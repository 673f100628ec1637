"""The texts in attributes of HTML are found, and all else of a page stays as it is."""

import pytest

from regard.documents.attributes import Attributes
from regard.documents.html_page import HtmlPage
from regard.documents.markup import Markup
from regard.documents.tag_rules import TagRules
from regard.verbs.translate import translate_file

PAGES = {  # with the texts in their attributes
    '<img src="a.png" alt="A dog">': ["A dog"],
    "<img alt='A \"big\" dog' title=Home>": ['A "big" dog', "Home"],
    '<a title="cats &amp; dogs" href="x>y">b</a>': ["cats & dogs"],
    '<meta name=viewport content="a"><meta name="Description" content="Dogs">': ["Dogs"],
    '<meta content="Dogs" property="og:title">': ["Dogs"],
    '<input type="submit" value="Send"><input value="a"><input placeholder="Name">': ["Send", "Name"],
    '<optgroup label="Dogs"><option label="a">b</option></optgroup><label label="c">': ["Dogs", "a"],
    '<textarea placeholder="Write"><img alt="a"></textarea>': ["Write"],
    '<script title="a"></script><style title="1"></style><img alt="12 %"><img alt>': ["a"],
    '<p translate="no"><img alt="a"></p><img alt="b" class="notranslate"><img alt="c">': ["c"],
    '<p translate="no"><textarea title="a"></textarea></p><!-- <img alt="a"> --> 1 < 2 alt="a"': [],
    '<textarea translate="no" title="a"></textarea>': [],
    '<img alt="a > b" translate="no"><textarea title="a > b" translate="no"></textarea>': [],
}


@pytest.mark.parametrize("page", PAGES)
def test_texts_of_attributes_are_found_and_the_rest_stays(page):
    found = Attributes(page)
    assert found.texts == PAGES[page]
    written = found.filled([f"<{text}> \"&'" for text in found.texts])
    again = Attributes(written)
    assert again.texts == [f"<{text}> \"&'" for text in found.texts]
    assert Attributes(again.filled(found.texts)).filled(found.texts) == again.filled(found.texts)
    assert Markup(written).texts == Markup(page).texts


def test_attributes_of_ignored_elements_and_of_xml_stay():
    page = '<textarea title="a">b</textarea><x alt="c" title="d">e</x><img alt="f">'
    rules = TagRules(ignored=frozenset(["textarea", "x"]))
    assert HtmlPage(page, rules).texts == ["f"]
    assert HtmlPage('<p title="a">b</p>', TagRules(xml=True)).texts == ["b"]


def test_texts_have_the_line_in_which_they_begin():
    page = '<p>\n a\n<b>c</b></p>\n<img\nalt="d"> \n\n e <br>\n f\n<img title="g">'
    assert Attributes(page).lines == [5, 9]
    assert Markup(page).texts == ["a", "c", "e", "f"]
    assert Markup(page).lines == [2, 3, 7, 8]
    assert Markup(page, whole=True).lines == [2, 7, 8]


def test_a_page_is_translated_with_its_attributes_and_warnings_have_the_line(tmp_path, capsys):
    page = '<title>Hello</title>\n<img alt="The dog">\n<p translate="no"><img alt="The dog"></p>\n'
    (tmp_path / "page.html").write_text(
        page + "<p>Hi</p>\n<p>Hi \u2603\u2603\u2603\u2603</p>\n", encoding="utf-8"
    )
    translate_file(tmp_path / "page.html", tmp_path / "out.html")
    lines = (tmp_path / "out.html").read_text(encoding="utf-8").splitlines()
    assert lines[1:3] == ['<img alt="Der Hund">', '<p translate="no"><img alt="The dog"></p>']
    assert "warning: line 5 has characters" in capsys.readouterr().err
