"""Figures are fit for a paper: whole titles, the page's colours, a column's width, fonts with all signs."""

import re

import numpy as np
import pytest

from regard.inspection import figures, fonts
from regard.inspection.figures import figure_at
from regard.inspection.fonts import DEFAULT_FONT, font_families
from regard.inspection.plots import WIDTHS, draw_attention, draw_positions
from regard.page.assets import assets

pytest.importorskip("matplotlib")
PANELS = {f"head {head}": np.eye(3) for head in range(3)}
TOKENS = ["a", "b", "c"]


def test_a_title_is_as_large_as_its_figure_is_wide(tmp_path):
    for title in ("short", "decoder.blocks.11.cross_attention of a model with a long name"):
        with figure_at(tmp_path / "a.svg", 3.3, 2, title=title) as figure:
            pass
        drawn = figure._suptitle.get_window_extent()
        assert drawn.x0 >= 0
        assert drawn.x1 <= figure.bbox.width


@pytest.mark.parametrize("size", ["column", "page"])
def test_a_figure_is_as_wide_as_a_column_or_a_page(tmp_path, size):
    path = tmp_path / "a.svg"
    draw_attention(path, PANELS, TOKENS, TOKENS, title="attention", size=size)
    width = float(re.search(r'width="([\d.]+)pt"', path.read_text("utf-8"))[1])
    assert width == pytest.approx(72 * WIDTHS[size], abs=0.1)


def test_a_colour_bar_explains_the_colours_and_text_stays_text(tmp_path):
    path = tmp_path / "a.svg"
    draw_attention(path, PANELS, TOKENS, TOKENS, row_name="written", column_name="source")
    for text in ("weight", "1.0", "written", "source", "head 2"):
        assert f">{text}</text>" in path.read_text("utf-8")


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_the_same_figure_is_the_same_bytes_and_pdf_has_truetype(tmp_path, kind):
    for name in ("a", "b"):
        draw_attention(tmp_path / f"{name}.{kind}", PANELS, TOKENS, TOKENS)
    content = (tmp_path / f"a.{kind}").read_bytes()
    assert content == (tmp_path / f"b.{kind}").read_bytes()
    assert b"/Type3" not in content


def test_the_scales_are_those_of_the_page():
    script = assets()["colour.js"].content.decode()
    light = [re.findall(r'"(#\w+)"', each) for each in re.findall(r"light: \[(.*?)\]", script, re.DOTALL)]
    assert [*figures.SEQUENTIAL] in light
    assert [*figures.DIVERGING] in light
    assert [*figures.HEAD_COLOURS] in light
    dashes = re.search(r"DASHES = \[(.*?)\]", assets()["strokes.js"].content.decode())
    assert dashes
    lengths = [tuple(map(int, re.findall(r"\d+", one))) for one in re.findall(r'"(.*?)"', dashes[1])]
    assert lengths == [*figures.HEAD_DASHES]


def test_the_biases_of_sixteen_heads_differ_in_style_and_are_named(tmp_path):
    path = tmp_path / "a.svg"
    bias = -np.linspace(0.1, 1, 16)[:, None, None] * np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
    draw_positions(path, bias=bias)
    drawn = path.read_text("utf-8")
    assert all(f">head {head}</text>" in drawn for head in range(16))
    lines = re.findall(r"(?:stroke-dasharray: ([\d.,]+)[^\"]*)?stroke: (#\w{6}); stroke-width: 1.2", drawn)
    assert len(set(lines)) == 16


def test_signs_that_the_first_font_lacks_are_written_in_another_of_this_machine():
    assert font_families(["abc"]) == ([DEFAULT_FONT], "")
    families, missing = font_families(["abc", "\N{ARC}"])
    assert families == [DEFAULT_FONT, "DejaVu Sans Mono"], "both come with matplotlib"
    assert missing == ""


def test_characters_without_a_font_are_named_and_matplotlib_does_not_warn(tmp_path, monkeypatch):
    monkeypatch.setattr(fonts, "_characters", lambda path: frozenset("abc"))
    assert font_families(["abc", "東京"]) == ([DEFAULT_FONT], "京東")
    draw_attention(tmp_path / "a.png", {"": np.eye(1)}, ["東"], ["a"])  # a warning is an error in tests
