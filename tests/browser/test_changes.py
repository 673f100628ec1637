"""Switching parts off keeps the rest of the request; switching them on again restores the first Look."""

import json
import re
from urllib.parse import quote

import pytest

from regard.serving.look_store import LookStore
from regard.verbs.look import LookRequest

TEXT, FORCED = "Where is the station?", "Wo ist die Station?"


@pytest.fixture(scope="module")
def forced(serve, lookers):
    """Where a look with a forced answer is served."""
    looker, _ = lookers["encoder_decoder"]
    return serve(LookStore(looker, LookRequest(text=TEXT, target=FORCED)))


def go(page, view):
    """Opens a view by its link, which keeps the request."""
    page.click(f"nav.views a[href*='view={view}']")
    page.wait_for_selector(f"main:not([aria-busy]) > .body.of-{view}")


@pytest.mark.parametrize(
    "begun", [pytest.param({}, marks=pytest.mark.nightly), {"text": TEXT, "prefix": "Wo befindet"}]
)
def test_switching_all_on_again_keeps_what_was_forced(visit, forced, begun):
    fragment = f"#ask={quote(json.dumps(begun))}" if begun else ""
    page_visit = visit(forced, fragment)
    before = page_visit.page.inner_text(".answer")
    word = "befindet" if begun else "die"
    assert re.search(rf"{word}\nforced", before)
    go(page_visit.page, "ablation")
    page_visit.page.click(".switches button.toggle:has-text('station')")
    page_visit.page.click("button:has-text('Run the model with these')")
    page_visit.page.wait_for_selector(".banner:has-text('token 3')")
    go(page_visit.page, "answer")
    assert re.search(rf"{word}\nforced", page_visit.page.inner_text(".answer")), (
        "with it off it was forced too"
    )
    page_visit.page.click("button:has-text('Switch all on again')")
    page_visit.page.wait_for_selector(".banner:empty", state="attached")
    page_visit.page.wait_for_selector("main:not([aria-busy]) > .body.of-answer .answer")
    assert page_visit.page.inner_text(".answer") == before
    page_visit.assert_quiet()


def test_an_invalid_text_is_reported_with_a_hint_and_can_be_corrected(visit, serve, lookers):
    """A page whose first look failed too has its box."""
    from regard.serving.look_store import LookStore
    from regard.verbs.look import LookRequest

    looker, _ = lookers["encoder_only"]
    page_visit = visit(serve(LookStore(looker, LookRequest(text="a " * 600))))
    reported = page_visit.page.inner_text(".ask [role=alert]")
    assert "more than 512" in reported
    assert "shorten it" in reported
    page_visit.page.fill("textarea", " a" * 700)
    page_visit.page.click("button:has-text('Look')")
    page_visit.page.wait_for_selector(".ask [role=alert]:has-text('shorten')")
    page_visit.page.fill("textarea", "a good film")
    page_visit.page.click("button:has-text('Look')")
    page_visit.page.wait_for_selector("nav.views li")
    assert "heads" in page_visit.views()
