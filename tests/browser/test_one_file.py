"""The page as one file opens from the disk with the network off, and shows all of a look."""

from tests.browser.visit import file_address


def test_one_file_shows_attention_alignment_beam_and_arithmetic_with_the_network_off(visit, files):
    page_visit = visit(file_address(files["encoder_decoder"]), offline=True)
    page_visit.view("heads")
    assert page_visit.page.query_selector_all("svg.chart line, svg.chart path")
    page_visit.view("matrix")
    assert page_visit.page.query_selector(".stage svg, .stage canvas")
    body = page_visit.view("alignment")
    assert "station" in body.inner_text()
    assert "Bahnhof" in body.text_content()
    body = page_visit.view("beam")
    assert "Bahnhof" in body.text_content()
    page_visit.view("arithmetic", part="cross", layer=0, head=1, row=1, column=2)
    assert "They agree" in page_visit.page.inner_text(".verdict")
    assert page_visit.page.query_selector("textarea") is None
    page_visit.assert_quiet()
