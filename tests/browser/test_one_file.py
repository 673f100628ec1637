"""The page as one file opens from the disk with the network off, and shows all of a look."""

from tests.browser.visit import file_address


def test_one_file_shows_attention_alignment_beam_and_arithmetic_with_the_network_off(visit, files):
    seen = visit(file_address(files["encoder_decoder"]), offline=True)
    seen.view("heads")
    assert seen.page.query_selector_all("svg.chart line, svg.chart path")
    seen.view("matrix")
    assert seen.page.query_selector(".stage svg, .stage canvas")
    body = seen.view("alignment")
    assert "station" in body.inner_text()
    assert "Bahnhof" in body.text_content()
    body = seen.view("beam")
    assert "Bahnhof" in body.text_content()
    seen.view("arithmetic", part="cross", layer=0, head=1, row=1, column=2)
    assert "They agree" in seen.page.inner_text(".verdict")
    assert seen.page.query_selector("textarea") is None
    seen.assert_quiet()
