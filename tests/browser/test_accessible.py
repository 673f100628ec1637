"""Everybody can use the page: axe finds nothing against WCAG 2.2 A and AA, the keyboard reaches all."""

import itertools
from pathlib import Path

import pytest

from regard.serving.look_store import LookStore
from regard.verbs.look import Looker, LookRequest
from tests.browser.conftest import KINDS
from tests.browser.visit import file_address
from tests.exports.engine_models import small_model

WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa"]
QUICK = {"resultTypes": ["violations"], "preload": False, "iframes": False}
RUN = """(options) => axe.run(options).then(({ violations }) =>
    violations.map(({ id, nodes }) => [id, ...nodes.map((one) => `${one.target}: ${one.html}`)]))"""
FOCUS = """() => {
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(document.activeElement);
    return document.activeElement.matches(":focus-visible")
        && ((outlineStyle !== "none" && parseFloat(outlineWidth) >= 2) || boxShadow !== "none");
}"""
NIGHTLY = pytest.mark.nightly
THEMES = ("light", "dark")
ALL = {"light": THEMES[:1], "dark": THEMES[1:], "in turn": THEMES}  # a view has one, the next the next one
ACTIVE = "() => document.activeElement"


@pytest.fixture(scope="package")
def axe():
    """The text of axe-core."""
    package = pytest.importorskip("axe_playwright_python")
    return (Path(package.__file__).parent / "axe.min.js").read_text("utf-8")


@pytest.fixture
def violations(axe):
    """What axe finds against a page by these rules."""

    def found(page):
        if not page.evaluate("() => 'axe' in window"):
            page.evaluate(axe)
        return page.evaluate(RUN, {"runOnly": WCAG, **QUICK})

    return found


@pytest.fixture(scope="module")
def small(serve):
    """Where a small encoder-decoder is served: axe takes the longer the more numbers a view has."""
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
    loaded = small_model("encoder_decoder", positions="learned", max_positions=16, **sizes)
    loaded.generation.update({"beam_size": 2, "max_length": 5})
    return serve(LookStore(Looker(loaded, device="cpu"), LookRequest(text="ba de mi")))


@pytest.mark.parametrize(
    ("kind", "place", "theme"),
    [
        ("small", "served", "in turn"),
        pytest.param("small", "served", "light", marks=NIGHTLY),
        *(
            pytest.param(kind, place, theme, marks=NIGHTLY)
            for kind in KINDS
            for place, theme in (("served", "light"), ("saved", "dark"))
        ),
    ],
)
def test_axe_finds_nothing_against_any_view_of_any_model(
    request, visit, addresses, files, violations, kind, place, theme
):
    """Served and saved pages are made of the same views: each is looked at in one of the two themes."""
    if kind == "small":
        page_visit = visit(request.getfixturevalue("small"))
    else:
        page_visit = visit(addresses[kind] if place == "served" else file_address(files[kind]))
    found = {}
    for view, shown in zip(page_visit.views(), itertools.cycle(ALL[theme]), strict=False):
        page_visit.view(view, theme=shown)
        page_visit.open_all()
        found[view] = violations(page_visit.page)
    assert len(found) >= 8
    assert [item for item in found.items() if item[1]] == []
    page_visit.assert_quiet()


@pytest.mark.parametrize(
    "settings",
    [
        {"viewport": {"width": 320, "height": 640}},
        pytest.param({"forced_colors": "active"}, marks=NIGHTLY),
    ],
)
def test_axe_finds_nothing_against_a_narrow_page_the_tour_and_forced_colours(
    visit, addresses, violations, settings
):
    page_visit = visit(addresses["encoder_decoder"], "#view=heads&tour=3", **settings)
    page_visit.page.wait_for_selector("aside.tour")
    page_visit.page.evaluate(
        "() => scrollTo(0, document.documentElement.scrollHeight)"
    )  # out from under the card
    assert violations(page_visit.page) == []
    width = page_visit.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    assert width <= 0, "nothing is wider than the page (1.4.10)"


class Keys:
    """What a hand on the keyboard can do; that the focus is seen is checked at each step."""

    def __init__(self, page_visit):
        self.page_visit, self.page = page_visit, page_visit.page

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def tab_to(self, selector, most=60, key="Tab"):
        for _ in range(most):
            self.press(key)
            assert self.page.evaluate(FOCUS), self.page.evaluate(ACTIVE + ".outerHTML.slice(0, 200)")
            if self.page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
                return
        raise AssertionError(f"{most} tabs do not lead to {selector}")

    @property
    def here(self):
        return self.page.evaluate(ACTIVE + ".textContent")


def test_a_walk_with_nothing_but_the_keyboard(visit, addresses):
    page_visit = visit(addresses["encoder_decoder"])
    keys = Keys(page_visit)
    # a link over the views' list to the view itself
    keys.tab_to(".skip", most=1)
    keys.press("Enter")
    assert page_visit.page.evaluate("() => document.activeElement.localName") == "main"
    # ask something else
    keys.tab_to("textarea")
    keys.press("Control+A")
    page_visit.page.keyboard.type("The dog sleeps.")
    keys.press("Control+Enter")
    page_visit.settled()
    assert "Hund" in page_visit.page.inner_text(".answer")
    # choose a token of the answer, by arrows, and see what else there was
    keys.tab_to(".chip")
    keys.press("ArrowRight", "Enter")
    assert page_visit.page.query_selector_all(".alternatives button, .alternatives table")
    # another view, and its table
    keys.tab_to("nav.views a[href*='view=matrix']", key="Shift+Tab")
    keys.press("Enter")
    page_visit.page.wait_for_selector("main:not([aria-busy]) > .body.of-matrix")
    keys.tab_to("summary")
    keys.press("Enter")
    page_visit.page.wait_for_selector("table[role=grid] td")
    keys.tab_to("td")
    before = page_visit.page.evaluate("() => ({ ...document.activeElement.dataset })")
    keys.press("ArrowDown", "ArrowRight", "ArrowRight")
    after = page_visit.page.evaluate("() => ({ ...document.activeElement.dataset })")
    assert int(after["row"]) == int(before["row"]) + 1
    assert int(after["column"]) == int(before["column"]) + 2
    assert page_visit.page.evaluate(FOCUS)
    # from a cell of the drawing to its arithmetic
    keys.tab_to("[role=application]", key="Shift+Tab")
    keys.press("ArrowDown", "ArrowRight", "Enter")
    page_visit.page.wait_for_selector("main:not([aria-busy]) > .body.of-arithmetic .formula")
    assert "They agree" in page_visit.page.inner_text(".verdict")
    page_visit.assert_quiet()


def test_the_tour_is_taken_left_and_taken_up_again_by_keyboard(visit, addresses):
    page_visit = visit(addresses["encoder_decoder"])
    keys = Keys(page_visit)
    keys.tab_to("header button")
    while "tour" not in keys.here:
        keys.tab_to("header button", most=1)
    keys.press("Enter")
    for step in range(1, 4):
        page_visit.page.wait_for_selector(f"aside.tour .count:has-text('{step} of')")
        assert keys.here == "Next"
        assert step <= int(page_visit.page.inner_text(".tour .count").split()[-1]) <= 10
        keys.press("Enter")
    page_visit.page.wait_for_selector("aside.tour .count:has-text('4 of')")
    keys.press("Escape")
    page_visit.page.wait_for_selector("aside.tour", state="detached")
    assert page_visit.page.query_selector("header button:has-text('Continue the tour (4)')")
    page_visit.assert_quiet()


def test_a_slider_has_a_name_and_a_spoken_value(visit, addresses):
    page_visit = visit(addresses["decoder_only"])
    for view, names in (("sampler", ("Temperature", "Top-k", "Top-p")), ("heads", ("",))):
        page_visit.view(view)
        sliders = page_visit.page.get_by_role("slider")
        assert sliders.count() >= len(names)
        for name in filter(None, names):
            assert page_visit.page.get_by_role("slider", name=name, exact=True).count() == 1
        for number in range(sliders.count()):
            assert sliders.nth(number).get_attribute("aria-label")
            assert sliders.nth(number).get_attribute("aria-valuetext")


def test_the_titles_of_both_sides_stand_whole_in_the_drawing_of_heads(visit, addresses):
    page_visit = visit(addresses["recurrent"])  # whose tokens are shorter than the titles
    page_visit.view("heads")
    inside = """() => {
        const chart = document.querySelector("svg.lines");
        const box = chart.getBoundingClientRect();
        return [...chart.querySelectorAll(":scope > text")].map((one) => one.getBoundingClientRect())
            .map(({ left, right }) => left >= box.left - 1 && right <= box.right + 1);
    }"""
    assert page_visit.page.evaluate(inside) == [True, True]
