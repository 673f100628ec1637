"""What is switched off is asked with all else that was asked, and switching on again brings that back."""

import json
import re
from urllib.parse import quote

import pytest

from regard.serving.looks import Looks
from regard.verbs.look import Request

TEXT, FORCED = "Where is the station?", "Wo ist die Station?"


@pytest.fixture(scope="module")
def forced(serve, lookers):
    """Where a look with a forced answer is served."""
    looker, _ = lookers["encoder_decoder"]
    return serve(Looks(looker, Request(text=TEXT, target=FORCED)))


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
