"""Tokens as labels of an axis: every character is visible, sizes are legible, none overlap."""

import math
import unicodedata
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALLEST = 5.0  # points: smaller text is not legible on paper
MAX_CHARACTERS = 20  # of a label; a longer one ends in an ellipsis
SLACK = 1.12  # of the measured size: other resolutions and file types round it in other ways
SIGNS = {"\n": "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}", "\t": "\N{RIGHTWARDS ARROW TO BAR}"}
JOINERS = "\u200c\u200d"  # they shape the letters around them


def label(token: str) -> str:
    """A token as a label: `$` is escaped for matplotlib, invisible characters are signs or escapes."""
    text = token.strip(" ") or "\N{OPEN BOX}"
    visible = "".join(map(_visible, text)) if text.strip(JOINERS) else "".join(map(_escaped, text))
    if len(visible) > MAX_CHARACTERS:
        visible = visible[: MAX_CHARACTERS - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return visible.replace("$", r"\$")


def _visible(character: str) -> str:
    if character in SIGNS:
        return SIGNS[character]
    return character if character.isprintable() or character in JOINERS else _escaped(character)


def _escaped(character: str) -> str:
    """`\\r`, `\\x1b`, `\\u200b`: the character as in a string of Python."""
    return character.encode("unicode_escape").decode("ascii")


def label_width(text: str, points: int | float) -> float:
    """About how wide a label is, in points, before there is a figure to measure it in."""
    return points * sum(1.0 if unicodedata.east_asian_width(each) in "WF" else 0.6 for each in text)


def fit_labels(axis: "Axes", across: Literal["x", "y"], count: int, points: int | float) -> tuple[float, int]:
    """The size in points at which the labels of `count` cells do not overlap, and of how many cells one has
    a label.

    The size is at most `points`. If it would be below SMALLEST, only every second cell has a label, or every
    third, ...: the figure must have its layout, and labels of `points` for all cells.
    """
    side: Literal["width", "height"] = "width" if across == "x" else "height"
    labels: Any = axis.get_xticklabels() if across == "x" else axis.get_yticklabels()
    largest = max((getattr(each.get_window_extent(), side) for each in labels), default=0.0)
    needed = SLACK * largest
    cell = getattr(axis.bbox, side) / max(count, 1)
    if needed <= cell:
        return float(points), 1
    step = math.ceil(SMALLEST / points * needed / cell)
    return min(float(points), points * step * cell / needed), step
