"""Every view is drawn for every kind of model, and the page asks nothing of anybody but its own server."""

import pytest

from tests.browser.conftest import KINDS
from tests.browser.visit import file_address

WRITES = {"answer", "sampler", "beam", "lens"}
LOOKS = {"heads", "grid", "matrix", "arithmetic", "rollout", "ablation", "attribution"}
MODEL = {"positions", "neighbours", "architecture"}
WHOLE = ("encoder_decoder", "vision")
VIEWS = {
    "encoder_decoder": WRITES | LOOKS | MODEL | {"alignment"},
    "recurrent": {"answer", "sampler", "beam", "heads", "grid", "matrix", "alignment", "architecture"},
    "decoder_only": WRITES | LOOKS | MODEL,
    "encoder_only": {"answer"} | LOOKS | MODEL,
    "vision": {"answer", "patches", "architecture", "positions"} | LOOKS - {"attribution"},
}


# a file has the page and the data of the server: for every change two kinds that have all views between them
@pytest.mark.parametrize(
    ("kind", "place"),
    [
        pytest.param(kind, place, marks=pytest.mark.nightly if place == "saved" and kind not in WHOLE else ())
        for kind in KINDS
        for place in ("served", "saved")
    ],
)
def test_every_view_is_drawn_without_outside_requests(visit, addresses, files, kind, place):
    page_visit = visit(addresses[kind] if place == "served" else file_address(files[kind]))
    views = page_visit.views()
    assert set(views) >= VIEWS[kind], VIEWS[kind] - set(views)
    for view in views:
        body = page_visit.view(view)
        page_visit.open_all()
        assert body.inner_text().strip(), view
        assert page_visit.page.query_selector_all("main [role=alert]") == [], view
        assert page_visit.page.query_selector("main svg, main canvas, main table, main .answer"), view
    assert page_visit.strange() == []
    page_visit.assert_quiet()


def test_attributions_are_those_of_the_answer_whose_tokens_keep_their_places(visit, addresses, lookers):
    """A prompt is not part of the answer; a place in the address means the same token in every view."""
    looker, request = lookers["decoder_only"]
    summary = looker(request).summary
    start, written = summary["answer"]["start"], summary["sequences"]["written"]["ids"]
    page_visit = visit(addresses["decoder_only"])
    page_visit.view("attribution", row=start + 1)
    places = page_visit.page.evaluate(
        """() => {
        const chosen = document.querySelector("main .body select");
        return [chosen.value, ...[...chosen.options].map((option) => option.value)];
    }"""
    )
    assert places == [str(start + 1), *map(str, range(start, len(written)))]


def test_a_stranger_would_be_noticed(visit, addresses):
    """The checks themselves are checked: everything that must not happen is made to happen."""
    page_visit = visit(addresses["encoder_only"])
    page_visit.page.evaluate("() => fetch('https://stranger.example/').catch(() => {})")
    page_visit.page.evaluate(
        """() => {
        const image = document.createElement("img");
        image.src = "http://127.0.0.1:9/";
        document.body.append(image);
        console.error("an error");
        alert("a dialog");
    }"""
    )
    page_visit.page.wait_for_timeout(200)
    assert any("an error" in line for line in page_visit.messages)
    assert "dialog: a dialog" in page_visit.messages
    assert page_visit.page.evaluate("() => window.reports.length") >= 2
    assert len(page_visit.strange()) == 1
