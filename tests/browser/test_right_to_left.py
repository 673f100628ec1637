"""Tokens of a script that runs from right to left stand in that order, in every line of tokens."""

import pytest

from regard.page.assets import one_file
from tests.browser.fixture import Fixture
from tests.browser.visit import file_address

ARABIC = ["أين", " محطة", " القطار", " الكبيرة", "؟", "</s>"]
LATIN = ["Where", " is", " the", " station", "?", "</s>"]
MIDDLES = """(nodes) => nodes.map((node) => {
    const { left, right, top } = node.getBoundingClientRect();
    return [(left + right) / 2, top];
})"""


@pytest.fixture(scope="module", params=[pytest.param("source", marks=pytest.mark.nightly), "written"])
def page(request, tmp_path_factory):
    """A saved page whose source, or whose answer, is Arabic."""
    source, written = (ARABIC, LATIN) if request.param == "source" else (LATIN, ARABIC)
    look = Fixture("encoder_decoder", {"source": source, "read": ["<s>", *written[:-1]], "written": written})
    file = tmp_path_factory.mktemp("pages") / "right.html"
    file.write_text(one_file(look.summary, *look.bytes(), title="right"), "utf-8")
    return file_address(file), request.param


def order(page_visit, selector):
    """The places of these from left to right; they stand in one line."""
    middles = page_visit.page.eval_on_selector_all(selector, MIDDLES)
    assert max(top for _, top in middles) - min(top for _, top in middles) < 12, "one line"
    return sorted(range(len(middles)), key=lambda place: middles[place][0])


def expected(turned):
    places = list(range(len(ARABIC)))
    return places[::-1] if turned else places


def test_the_words_of_an_alignment_run_as_they_are_read(visit, page):
    address, arabic = page
    page_visit = visit(address)
    page_visit.view("alignment")
    for number, side in ((3, "source"), (4, "written")):  # after the bands and those that are lit
        assert order(page_visit, f"svg.ribbon > g:nth-of-type({number}) > text") == expected(
            side == arabic
        ), side
    page_visit.assert_quiet()


def test_the_lists_beside_a_matrix_run_as_they_are_read(visit, page):
    address, arabic = page
    page_visit = visit(address, viewport={"width": 1600, "height": 900})
    page_visit.view("matrix", part="cross", layer=0)
    lists = [".token-field:nth-of-type(1) .piece", ".token-field:nth-of-type(2) .piece"]
    for selector, side in zip(lists, ("written", "source"), strict=True):
        middles = page_visit.page.eval_on_selector_all(f".token-lines {selector}", MIDDLES)
        first_line = [middle for middle in middles if abs(middle[1] - middles[0][1]) < 4]
        assert len(first_line) >= 2
        across = [x for x, _ in first_line]
        assert across == sorted(across, reverse=side == arabic), side
    page_visit.assert_quiet()


def test_the_tokens_of_an_answer_run_as_they_are_read(visit, page):
    address, arabic = page
    page_visit = visit(address, viewport={"width": 1600, "height": 900})
    page_visit.view("answer")
    assert order(page_visit, ".answer .chip") == expected(arabic == "written")
    page_visit.assert_quiet()
