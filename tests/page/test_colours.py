"""Colours can be distinguished without red cones (protanopia) or green ones (deuteranopia)."""

import itertools

import numpy as np
import pytest

SEEN = {  # of linear RGB: Machado, Oliveira and Fernandes 2009, table 1, severity 1.0
    "usual": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}
XYZ = [
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
]
WHITE = [0.95047, 1.0, 1.08883]
HEADS, EIGHT, SIXTEEN = (
    30,
    20,
    15,
)  # of the first eight heads, of the second eight, of all; CIE 1976 distances:
SIGNS, STEPS = 25, 8  # about 2.3 is the just noticeable difference


def lab(colours, kind):
    """CIELAB of colours [count, 3] of 0..255 as such eyes see them."""
    shares = np.asarray(colours, dtype=float) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    xyz = np.clip(linear @ np.transpose(SEEN[kind]), 0, 1) @ np.transpose(XYZ) / WHITE
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


@pytest.fixture(scope="module")
def palette(javascript):
    """The page's colours by paper: of heads, of weights from 0 to 1, of changes from -1 to 1."""
    return javascript(
        """
        import { HEAD_COLOURS, diverging, sequential } from "./colour.js";
        const rgb = (text) => text.startsWith("#")
          ? [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)) : text.match(/\\d+/g).map(Number);
        const steps = Array.from({ length: 7 }, (_, i) => i / 6);
        const of = (paper) => ({
          heads: HEAD_COLOURS[paper].map(rgb),
          weights: steps.map((value) => rgb(sequential(value, paper))),
          changes: steps.map((value) => [rgb(diverging(-value, paper)), rgb(diverging(value, paper))]),
        });
        console.log(JSON.stringify({ light: of("light"), dark: of("dark") }));
        """
    )


@pytest.mark.parametrize("kind", SEEN)
@pytest.mark.parametrize("paper", ["light", "dark"])
def test_any_two_of_sixteen_heads_differ_for_every_eye(palette, paper, kind):
    heads = lab(palette[paper]["heads"], kind)
    assert len(heads) == 16
    assert nearest(heads[:8]) >= HEADS
    assert nearest(heads[8:]) >= EIGHT  # they have the same dash
    assert nearest(heads) >= SIXTEEN


def nearest(colours):
    """The smallest distance of two."""
    return min(np.linalg.norm(first - second) for first, second in itertools.combinations(colours, 2))


@pytest.mark.parametrize("dash", ["headDash", "seriesDash"])
@pytest.mark.parametrize("paper", ["light", "dark"])
def test_sixty_four_heads_differ_by_colour_or_by_dash(javascript, paper, dash):
    strokes = javascript(
        f"""
        import {{ headColour }} from "./colour.js";
        import {{ {dash} }} from "./strokes.js";
        const heads = Array.from({{ length: 64 }}, (_, head) => head);
        console.log(JSON.stringify(heads.map((head) => [headColour(head, "{paper}"), {dash}(head)])));
        """
    )
    assert len({tuple(stroke) for stroke in strokes}) == 64
    eights = [{stroke for _, stroke in strokes[start : start + 8]} for start in (0, 8)]
    assert eights[0] != eights[1] or len(eights[0]) > 1, "the second channel is used below 16 heads too"


@pytest.mark.parametrize("kind", SEEN)
@pytest.mark.parametrize("paper", ["light", "dark"])
def test_more_differs_from_less_and_better_from_worse_for_every_eye(palette, paper, kind):
    weights = lab(palette[paper]["weights"], kind)
    assert np.linalg.norm(np.diff(weights, axis=0), axis=1).min() >= STEPS
    worse, better = np.swapaxes(palette[paper]["changes"][2:], 0, 1)  # from a third of the scale on
    assert np.linalg.norm(lab(worse, kind) - lab(better, kind), axis=1).min() >= SIGNS


def test_colours_that_colour_blindness_confuses_are_found():
    red, green = [[179, 71, 0]], [[93, 106, 28]]
    assert np.linalg.norm(lab(red, "usual") - lab(green, "usual")) > HEADS
    assert np.linalg.norm(lab(red, "deuteranopia") - lab(green, "deuteranopia")) < HEADS
