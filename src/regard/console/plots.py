"""Plots of curves on stdout."""

import math
from collections.abc import Mapping, Sequence

from rich.text import Text

from regard.console.braille import MARKS, Canvas
from regard.console.streams import stdout

COLOURS = ("cyan", "yellow", "magenta", "green")
Points = Sequence[tuple[int, float]]  # (step, value), in any order


def plot(title: str, series: Mapping[str, Points], *, log: bool = False, height: int = 10) -> None:
    """Plot curves to stdout as braille dots, one line for each series that has points.

    With `log` the y axis is logarithmic, unless a value is 0 or below. `height` is in lines of text. Values
    must be finite.
    """
    plotted = {name: points for name, points in series.items() if points}
    if not plotted:
        return
    out = stdout()
    all_points = [point for points in plotted.values() for point in points]
    x_low, x_high = min(x for x, _ in all_points), max(x for x, _ in all_points)
    y_low, y_high = min(y for _, y in all_points), max(y for _, y in all_points)
    log = log and y_low > 0
    labels = [f"{_tick(y_high)} ", f"{_tick(y_low)} "]
    margin = max(map(len, labels))
    canvas = Canvas(max(min(out.width, 100) - margin - 2, 10), height)
    for number, points in enumerate(plotted.values()):
        points_in_unit_square = [
            (_share(x, x_low, x_high, log=False), _share(y, y_low, y_high, log=log))
            for x, y in sorted(points)
        ]
        canvas.line(points_in_unit_square, number)
        if number:
            canvas.marks(points_in_unit_square, number)
    legend = [Text(f"{MARKS[i % 4] or '·'} {name}", COLOURS[i % 4]) for i, name in enumerate(plotted)]
    out.print(Text.assemble((title, "bold"), "   ", Text("   ").join(legend)))
    for row, cells in enumerate(canvas.rows(ascii_only=not out.encoding.startswith("utf"))):
        label = labels[0] if row == 0 else labels[1] if row == height - 1 else ""
        styled = [(text, COLOURS[series % 4]) if series is not None else text for text, series in cells]
        out.print(Text.assemble(label.rjust(margin), "|", *styled))
    first, last = f"step {x_low:,.0f}", f"{x_high:,.0f}"
    out.print(Text(" " * (margin + 1) + first + last.rjust(canvas.width - len(first))))


def _tick(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"  # from 999.5 on .3g gives 1e+03


def _share(value: int | float, low: int | float, high: int | float, *, log: bool) -> float:
    """The position of a value on its axis, from 0 to 1."""
    if log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low) if high > low else 0.5
