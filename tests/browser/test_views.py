"""Every view is drawn for every kind of model, and the page asks nothing of anybody but its own server."""

import pytest

from regard.layers.scaled_dot_product import plain_attention
from regard.serving.look_store import LookStore
from regard.verbs.look import Looker, LookRequest
from tests.browser.conftest import KINDS
from tests.browser.visit import file_address

WRITES = {"answer", "sampler", "beam", "lens"}
LOOKS = {"heads", "grid", "matrix", "arithmetic", "rollout", "ablation", "attribution"}
MODEL = {"positions", "neighbours", "architecture"}
FIRST = {
    ("encoder_decoder", "served"),
    ("recurrent", "served"),
    ("vision", "saved"),
}
VIEWS = {
    "encoder_decoder": WRITES | LOOKS | MODEL | {"alignment"},
    "recurrent": {"answer", "sampler", "beam", "heads", "grid", "matrix", "alignment", "architecture"},
    "decoder_only": WRITES | LOOKS | MODEL,
    "encoder_only": {"answer"} | LOOKS | MODEL,
    "vision": {"answer", "patches", "architecture", "positions"} | LOOKS - {"attribution"},
}


# a file has the page and the data of the server: for every change kinds that have all views between them;
# the views of a decoder are drawn by the test of an attention without weights
@pytest.mark.parametrize(
    ("kind", "place"),
    [
        pytest.param(kind, place, marks=() if (kind, place) in FIRST else pytest.mark.nightly)
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


@pytest.mark.parametrize("changed", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_an_attention_without_weights_is_named_above_the_views_that_are_left(
    visit, serve, decoder_folder, changed
):
    """One attention of two, or both, are not weighted means of their values."""
    looker = Looker(decoder_folder(num_layers=2, decoding={"max_new_tokens": 6}), device="cpu")
    names = [f"blocks.{layer}.self_attention" for layer in range(changed)]
    for name in names:
        module = looker.loaded.model.get_submodule(name)
        module.attend = lambda *given: plain_attention(*given).tanh()
    page_visit = visit(serve(LookStore(looker, LookRequest(text="To be, or"))))
    banner = page_visit.page.inner_text(".banner")
    for name in names:
        assert f"No weights of {name}: its attention is not a weighted mean of the values" in banner
    views = {*page_visit.views()}
    missing = {"rollout"} if changed == 1 else {"rollout", "heads", "grid", "matrix", "arithmetic"}
    assert VIEWS["decoder_only"] - missing - {"beam"} <= views
    assert not missing & views
    for view in views:
        page_visit.view(view)
        page_visit.open_all()
        assert page_visit.page.query_selector_all("main [role=alert]") == [], view
    page_visit.view("ablation")
    page_visit.open_all()
    assert page_visit.page.query_selector_all("button[aria-label='decoder 0, head 0']")
    page_visit.assert_quiet()
