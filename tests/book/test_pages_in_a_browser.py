"""The pages of the book in a browser: axe finds nothing serious, and nothing is wider than a phone."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly
PAGES = [
    "index",
    "reference/commands",
    "reference/recipe-keys",
    "reference/api/layers",
    "reference/errors",
    "reference/glossary",
    "do/coming-from-toolkits",
]
RUN = """() => axe.run(document, { resultTypes: ["violations"], iframes: false }).then(({ violations }) =>
    violations.filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => [id, ...nodes.slice(0, 3).map((one) => `${one.target}: ${one.html}`)]))"""
PHONE = {"viewport": {"width": 390, "height": 800}}


@pytest.fixture
def opened(browser, book):
    """Opens a page of the book from disk; `settings` are those of a browser's context."""
    contexts = []

    def opened(name, **settings):
        contexts.append(browser.new_context(**settings))
        page = contexts[-1].new_page()
        page.goto((book / f"{name}.html").as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(opened, name, theme):
    package = pytest.importorskip("axe_playwright_python")
    page = opened(name, color_scheme=theme)
    page.evaluate((Path(package.__file__).parent / "axe.min.js").read_text("utf-8"))
    assert page.evaluate(RUN) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_not_wider_than_a_phone(opened, name):
    page = opened(name, **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"]["width"]
