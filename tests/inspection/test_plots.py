"""Figures are fit for a paper: whole titles, the page's colours, a column's width, fonts with all signs."""

import re
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest

from regard.inspection import figures, fonts, plots
from regard.inspection.figures import figure_at
from regard.inspection.fonts import DEFAULT_FONT, font_families
from regard.inspection.plots import WIDTHS, draw_attention, draw_positions
from regard.inspection.tick_labels import SMALLEST, label
from regard.layers.positions import LinearBias, sinusoids
from regard.page.assets import assets
from tests.nightly import each_once

pytest.importorskip("matplotlib")
PANELS = {f"head {head}": np.eye(3) for head in range(3)}
TOKENS = ["a", "b", "c"]
SENTENCE = "I lost my umbrella on the train yesterday because it rained , and nobody gave it back"
WORDS = SENTENCE.split()


@pytest.fixture
def figure_of(monkeypatch, tmp_path):
    """Calls a function that draws to a path; gives the figure after it is drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    kept = []

    @contextmanager
    def keeping(*given, **named):
        with figure_at(*given, **named) as figure:
            kept.append(figure)
            yield figure

    def draw(function, *given, **named):
        function(tmp_path / "a.png", *given, **named)
        figure = kept[-1]
        FigureCanvasAgg(figure).draw()
        return figure

    monkeypatch.setattr(plots, "figure_at", keeping)
    return draw


def attention(heads, rows, columns, **named):
    """The arguments of `draw_attention` for a map of this size."""
    tokens = [[WORDS[i % len(WORDS)] for i in range(count)] for count in (rows, columns)]
    return {f"head {head}": np.zeros((rows, columns)) for head in range(heads)}, *tokens


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


@pytest.mark.parametrize(
    ("shape", "size"),
    each_once([(1, 24, 22), (4, 41, 37), (3, 5, 23), (2, 100, 120), (1, 6, 6)], ["screen", "column", "page"]),
)
def test_labels_are_legible_and_never_on_each_other(figure_of, size, shape):
    heads, rows, columns = shape
    figure = figure_of(draw_attention, *attention(heads, rows, columns), size=size, title="attention")
    panels = [axis for axis in figure.axes if axis.images and axis.get_visible()]
    assert len(panels) == heads
    labelled = 0
    for axis in panels:
        for labels in (axis.get_xticklabels(), axis.get_yticklabels()):
            shown = [each for each in labels if each.get_visible() and each.get_text()]
            labelled += bool(shown)
            boxes = [each.get_window_extent() for each in shown]
            assert not any(one.overlaps(other) for one, other in pairwise(boxes))
            assert all(each.get_fontsize() >= SMALLEST - 1e-6 for each in shown)
    assert labelled >= 2


@pytest.mark.parametrize("size", ["screen", "column", "page"])
def test_each_column_of_panels_has_labels_below_it(figure_of, size):
    """Of three panels in rows of two, the second has no panel below it."""
    figure = figure_of(draw_attention, *attention(3, 5, 5), size=size)
    panels = [axis for axis in figure.axes if axis.images and axis.get_visible()]
    lowest = {round(axis.bbox.x0): axis for axis in panels}  # the last panel of each column
    for axis in lowest.values():
        assert [each.get_text() for each in axis.get_xticklabels() if each.get_visible()] == WORDS[:5]


@pytest.mark.parametrize(("count", "all_named"), [(8, True), (120, False)])
def test_an_axis_says_if_not_all_of_its_tokens_have_labels(figure_of, count, all_named):
    figure = figure_of(draw_attention, *attention(1, 5, count), size="column", column_name="source")
    axis = figure.axes[0]
    named = [each.get_text() for each in axis.get_xticklabels()]
    assert (len(named) == count) == all_named
    said = re.fullmatch(r"source(?: \(one token in (\d+) is named\))?", figure._supxlabel.get_text())
    assert said
    step = int(said[1] or 1)
    assert named == [WORDS[i % len(WORDS)] for i in range(0, count, step)]
    assert [*axis.get_xticks()] == [*range(0, count, step)]


@pytest.mark.parametrize("size", ["screen", "column", "page"])
def test_a_title_is_no_larger_than_the_names_of_the_axes(figure_of, size):
    given = attention(1, 5, 5)
    title = "decoder.blocks.1.cross_attention"
    figure = figure_of(draw_attention, *given, title=title, column_name="source", size=size)
    assert figure._suptitle.get_fontsize() <= figure._supxlabel.get_fontsize()


def test_a_title_is_drawn_as_it_is(tmp_path):
    with figure_at(tmp_path / "a.svg", 5, 2, title="costs_$5 and $6_a^b"):
        pass
    assert ">costs_$5 and $6_a^b</text>" in (tmp_path / "a.svg").read_text("utf-8")


def test_invisible_characters_are_drawn_as_signs_that_the_default_font_has():
    assert [label(each) for each in (" ", "\n", "\t", " Haus", "a\n")] == ["␣", "↵", "⇥", "Haus", "a↵"]
    assert [label(each) for each in ("\r", "\x1b", "\u200b")] == ["\\r", "\\x1b", "\\u200b"]
    invisible = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA1), 0x200B, 0x200D, 0xFEFF, 0xD800)]
    labels = [label(each) for each in invisible]
    assert len(set(labels)) == len(invisible), "different characters have different labels"
    assert all(each.isprintable() for each in labels)
    assert font_families(labels) == ([DEFAULT_FONT], "")


def test_a_joiner_within_a_word_is_kept_for_the_font():
    assert label("نمی\u200cخواهم") == "نمی\u200cخواهم"


def test_a_long_token_is_cut():
    assert len(label("x" * 500)) < 30
    assert label("x" * 500).endswith("…")


def lines_of(figure):
    """The lines of the last panel: by name, the values at each place."""
    return {line.get_label(): dict(zip(*line.get_data(), strict=True)) for line in figure.axes[-1].lines}


def test_the_lines_of_a_causal_bias_are_its_values_at_each_distance(figure_of):
    figure = figure_of(draw_positions, bias=LinearBias(4)(64, 64)[0].numpy(), causal=True)
    for head, slope in enumerate((1 / 4, 1 / 16, 1 / 64, 1 / 256)):  # Press et al. 2022, section 3
        assert lines_of(figure)[f"head {head}"] == {-distance: -slope * distance for distance in range(64)}


def test_the_lines_of_an_encoders_bias_have_both_directions_and_differ(figure_of):
    bias = LinearBias(4, directed=True)(32, 32)[0].numpy()
    lines = lines_of(figure_of(draw_positions, bias=bias))
    for head in range(4):
        assert lines[f"head {head}"] == {offset: bias[head, 16, 16 + offset] for offset in range(-16, 16)} | {
            offset: bias[head, max(0, -offset), max(0, offset)] for offset in range(-31, 32)
        }
    assert len({tuple(line.values()) for line in lines.values()}) == 4


@pytest.mark.parametrize("length", [64, 10_000])
def test_waves_are_lines_and_not_a_solid_block(figure_of, length):
    figure = figure_of(draw_positions, table=sinusoids(0, length, 16).numpy())
    [waves] = [axis for axis in figure.axes if axis.lines]
    width = 72 * waves.bbox.width / figure.dpi
    for line in waves.lines:
        crossings = np.count_nonzero(np.diff(np.sign(line.get_ydata())))
        assert width / max(crossings, 1) > 3, "points between a wave's zeros"
    assert (f"the first {len(waves.lines[0].get_ydata())}" in waves.get_xlabel()) == (length > 64)
