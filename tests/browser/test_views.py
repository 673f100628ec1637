"""Every view is drawn for every kind of model, and the page asks nothing of anybody but its own server."""

import pytest

from tests.browser.conftest import KINDS
from tests.browser.visit import file_address

WRITES = {"answer", "sampler", "beam", "lens"}
LOOKS = {"heads", "grid", "matrix", "arithmetic", "rollout", "ablation", "attribution"}
MODEL = {"positions", "neighbours", "architecture"}
VIEWS = {
    "encoder_decoder": WRITES | LOOKS | MODEL | {"alignment"},
    "recurrent": {"answer", "sampler", "beam", "heads", "grid", "matrix", "alignment", "architecture"},
    "decoder_only": WRITES | LOOKS | MODEL,
    "encoder_only": {"answer"} | LOOKS | MODEL,
    "vision": {"answer", "patches", "architecture", "positions"} | LOOKS - {"attribution"},
}


@pytest.mark.parametrize("place", ["served", "saved"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_view_is_drawn_and_nothing_outside_is_asked(visit, addresses, files, kind, place):
    seen = visit(addresses[kind] if place == "served" else file_address(files[kind]))
    views = seen.views()
    assert set(views) >= VIEWS[kind], VIEWS[kind] - set(views)
    for view in views:
        body = seen.view(view)
        seen.open_all()
        assert body.inner_text().strip(), view
        assert seen.page.query_selector_all("main [role=alert]") == [], view
        assert seen.page.query_selector("main svg, main canvas, main table, main .answer"), view
    assert seen.strange() == []
    seen.assert_quiet()


def test_attributions_are_those_of_the_answer_whose_tokens_keep_their_places(visit, addresses, lookers):
    """A prompt is no part of the answer; a place in the address means the same token in every view."""
    looker, request = lookers["decoder_only"]
    summary = looker(request).summary
    start, written = summary["answer"]["start"], summary["sequences"]["written"]["ids"]
    seen = visit(addresses["decoder_only"])
    seen.view("attribution", row=start + 1)
    places = seen.page.evaluate(
        """() => {
        const chosen = document.querySelector("main .body select");
        return [chosen.value, ...[...chosen.options].map((option) => option.value)];
    }"""
    )
    assert places == [str(start + 1), *map(str, range(start, len(written)))]


def test_a_stranger_would_be_noticed(visit, addresses):
    """The watch itself is watched: each thing that the tests say does not happen, made to happen."""
    seen = visit(addresses["encoder_only"])
    seen.page.evaluate("() => fetch('https://stranger.example/').catch(() => {})")
    seen.page.evaluate(
        """() => {
        const image = document.createElement("img");
        image.src = "http://127.0.0.1:9/";
        document.body.append(image);
        console.error("an error");
        alert("a dialog");
    }"""
    )
    seen.page.wait_for_timeout(200)
    assert any("an error" in line for line in seen.said)
    assert "dialog: a dialog" in seen.said
    assert seen.page.evaluate("() => window.reports.length") >= 2
    assert len(seen.strange()) == 1
