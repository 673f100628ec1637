"""Each view can be taken away as SVG, PNG and CSV."""

import base64
import csv
import itertools
import re
import struct
from xml.etree import ElementTree

import pytest

from tests.browser.conftest import KINDS

playwright = pytest.importorskip("playwright.sync_api")

PICTURE = b"\x89PNG\r\n\x1a\n"
NEXT_FRAME = "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
# Chromium writes a PNG when it is idle between two frames, or after a second without frames.
FRAMES = """(wanted) => {
    window.frames_wanted = wanted;
    const turn = () => window.frames_wanted && requestAnimationFrame(turn);
    turn();
}"""
WHOLE = ("encoder_decoder", "vision")  # between them they have all views


def saved(page_visit, view, kind, folder):
    """What the first figure of a view is saved as; a download that Chromium loses is asked for once more."""
    button = page_visit.page.locator("main figure").first.get_by_role("button", name=f"Save as {kind}")
    page_visit.page.evaluate(FRAMES, kind == "PNG")
    try:
        with page_visit.page.expect_download() as caught:
            button.click()
    except playwright.TimeoutError:  # seen once, on a busy machine
        with page_visit.page.expect_download() as caught:
            button.click()
    page_visit.page.evaluate(FRAMES, False)
    file = folder / f"{view}.{kind.lower()}"
    caught.value.save_as(file)
    assert caught.value.suggested_filename.endswith(file.suffix)
    return file


def assert_drawing(file):
    drawing = ElementTree.parse(file).getroot()
    assert drawing.tag.endswith("}svg"), file
    marks = {"rect", "path", "line", "image", "circle", "text"}
    assert any(node.tag.rpartition("}")[2] in marks for node in drawing.iter()), file


def assert_picture(file):
    picture = file.read_bytes()
    assert picture.startswith(PICTURE), file
    width, height = struct.unpack(">II", picture[16:24])
    assert min(width, height) >= 20, file


def assert_table(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        head, *rows = csv.reader(file)
    assert rows, path
    assert {len(row) for row in rows} == {len(head)}, path


FORMATS = {"SVG": assert_drawing, "PNG": assert_picture, "CSV": assert_table}


# for every change each view in one of the formats, which take turns
@pytest.mark.parametrize(
    ("kind", "at_a_time"),
    [(WHOLE[0], 1), *(pytest.param(kind, len(FORMATS), marks=pytest.mark.nightly) for kind in WHOLE)],
)
def test_every_view_is_saved_as_svg_png_and_csv(visit, addresses, tmp_path, kind, at_a_time):
    assert set(WHOLE) < set(KINDS)
    page_visit, turns = visit(addresses[kind]), itertools.cycle(FORMATS)
    names = page_visit.views()
    assert len(names) >= len(FORMATS)
    for view in names:
        page_visit.view(view)
        page_visit.page.wait_for_selector("main figure")
        for name in itertools.islice(turns, at_a_time):
            FORMATS[name](saved(page_visit, view, name, tmp_path))
    page_visit.assert_quiet()


# for every change a view of each way of drawing: images, lines, cells and curves
@pytest.mark.parametrize(
    ("kind", "views"),
    [
        ("vision", ("patches", "heads", "matrix", "positions")),
        *(pytest.param(kind, (), marks=pytest.mark.nightly) for kind in WHOLE),
    ],
)
def test_what_is_saved_is_on_white_whatever_the_theme(visit, addresses, tmp_path, kind, views):
    page_visit = visit(addresses[kind])
    for view in views or page_visit.views():
        found = {}
        for theme in ("light", "dark"):
            page_visit.view(view, theme=theme)
            page_visit.page.wait_for_selector("main figure")
            found[theme] = [saved(page_visit, view, file, tmp_path).read_bytes() for file in ("SVG", "PNG")]
        assert found["dark"] == found["light"], view
        assert b'fill="#ffffff"' in found["dark"][0], view
        assert b"light-dark" not in found["dark"][0], view
    page_visit.assert_quiet()


@pytest.mark.parametrize(
    "views", [("patches", "positions"), pytest.param(("matrix",), marks=pytest.mark.nightly)]
)
def test_the_page_stays_dark_after_something_was_saved(visit, addresses, tmp_path, views):
    page_visit = visit(addresses["vision"])
    for view in views:
        page_visit.view(view, theme="dark")
        chart = page_visit.page.locator("main figure .chart").first
        before = chart.screenshot()
        saved(page_visit, view, "PNG", tmp_path)
        assert chart.screenshot() == before, view


@pytest.mark.parametrize(
    "views", [("patches", "positions"), pytest.param(("grid",), marks=pytest.mark.nightly)]
)
def test_the_page_is_printed_in_the_light_theme(visit, addresses, views):
    page_visit = visit(addresses["vision"])
    page = page_visit.page
    for view in views:
        printed = {}
        for theme in ("light", "dark"):
            page_visit.view(view, theme=theme)
            chart = page.locator("main figure canvas:visible, main .tile canvas:visible").first
            chart.wait_for()
            on_screen = chart.screenshot()
            page.emulate_media(media="print")
            page.evaluate(NEXT_FRAME)  # a change of the medium is reported when a frame is drawn
            printed[theme] = chart.evaluate("node => node.toDataURL()")
            page.emulate_media(media="screen")
            page.evaluate(NEXT_FRAME)
            assert chart.screenshot() == on_screen, view
        assert printed["dark"] == printed["light"], view


def test_the_width_of_paper_changes_no_chart(visit, addresses):
    page_visit = visit(addresses["vision"])
    page_visit.view("patches")
    page = page_visit.page
    drawn = page.locator("main > .body").evaluate_handle("body => body")
    width = page.locator("main").evaluate("main => main.clientWidth")
    page.emulate_media(media="print")
    page.wait_for_timeout(600)  # a new width is drawn 200 ms after it
    assert abs(page.locator("main").evaluate("main => main.clientWidth") - width) > 30
    assert drawn.evaluate("body => body.isConnected")
    page.emulate_media(media="screen")
    page.wait_for_timeout(600)
    assert drawn.evaluate("body => body.isConnected")
    page.set_viewport_size({"width": 800, "height": 900})
    page.wait_for_function("body => !body.isConnected", arg=drawn)


def test_all_heads_are_saved_before_they_were_in_sight(visit, addresses, tmp_path):
    page_visit = visit(addresses["encoder_decoder"], viewport={"width": 400, "height": 300})
    page_visit.view("grid", part="encoder")
    text = saved(page_visit, "grid", "SVG", tmp_path).read_text("utf-8")
    pictures = [base64.b64decode(found) for found in re.findall(r'href="data:image/png;base64,([^"]+)', text)]
    assert len(pictures) >= 8
    assert all(min(struct.unpack(">II", picture[16:24])) > 1 for picture in pictures)
