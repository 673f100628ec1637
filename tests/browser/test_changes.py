"""What is switched off is asked with all else that was asked, and switching on again brings that back."""

import json
import re
from urllib.parse import quote

import pytest

from regard.serving.look_store import LookStore
from regard.verbs.look import Request

TEXT, FORCED = "Where is the station?", "Wo ist die Station?"


@pytest.fixture(scope="module")
def forced(serve, lookers):
    """Where a look with a forced answer is served."""
    looker, _ = lookers["encoder_decoder"]
    return serve(LookStore(looker, Request(text=TEXT, target=FORCED)))


def go(page, view):
    """To a view by its link, which keeps what was asked."""
    page.click(f"nav.views a[href*='view={view}']")
    page.wait_for_selector(f"main:not([aria-busy]) > .body.of-{view}")


@pytest.mark.parametrize("begun", [{}, {"text": TEXT, "prefix": "Wo befindet"}])
def test_switching_all_on_again_keeps_what_was_forced(visit, forced, begun):
    fragment = f"#ask={quote(json.dumps(begun))}" if begun else ""
    seen = visit(forced, fragment)
    before = seen.page.inner_text(".answer")
    word = "befindet" if begun else "die"
    assert re.search(rf"{word}\nforced", before)
    go(seen.page, "ablation")
    seen.page.click(".switches button.toggle:has-text('station')")
    seen.page.click("button:has-text('Run the model with these')")
    seen.page.wait_for_selector(".banner:has-text('token 3')")
    go(seen.page, "answer")
    assert re.search(rf"{word}\nforced", seen.page.inner_text(".answer")), "with it off it was forced too"
    seen.page.click("button:has-text('Switch all on again')")
    seen.page.wait_for_selector(".banner:empty", state="attached")
    seen.page.wait_for_selector("main:not([aria-busy]) > .body.of-answer .answer")
    assert seen.page.inner_text(".answer") == before
    seen.assert_quiet()


def test_what_cannot_be_looked_at_is_told_with_what_to_do_and_can_be_asked_anew(visit, serve, lookers):
    """A page whose first look failed too has its box."""
    from regard.serving.look_store import LookStore
    from regard.verbs.look import Request

    looker, _ = lookers["encoder_only"]
    seen = visit(serve(LookStore(looker, Request(text="a " * 600))))
    told = seen.page.inner_text(".ask [role=alert]")
    assert "more than 512" in told
    assert "shorten it" in told
    seen.page.fill("textarea", " a" * 700)
    seen.page.click("button:has-text('Look')")
    seen.page.wait_for_selector(".ask [role=alert]:has-text('shorten')")
    seen.page.fill("textarea", "a good film")
    seen.page.click("button:has-text('Look')")
    seen.page.wait_for_selector("nav.views li")
    assert "heads" in seen.views()
