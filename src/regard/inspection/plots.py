"""Figures for papers and slides: attention, alignments, positions, schedules."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from regard.inspection.figures import DIVERGING, HUES, INK, PALE, SEQUENTIAL, colours, figure_at, head_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Size = Literal["screen", "column", "page"]
INCHES = {"column": 3.35, "page": 6.9}  # one and two columns of a paper, as IEEE's and ACL's are about
COLUMNS = {"screen": 4, "column": 2, "page": 4}  # panels side by side
NAMED = 80  # tokens, up to which each has its name beside it
CELL = 0.28  # inches
WAVES = 4  # features of a position whose waves are drawn


def draw_attention(
    path: Path,
    panels: Mapping[str, Float[np.ndarray, "rows columns"]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str = "",
    row_name: str = "",
    column_name: str = "",
    size: Size = "screen",
) -> None:
    """Write maps of weights between 0 and 1, side by side under their names; darker is more.

    `size`: as wide as its cells need, or as one or two columns of a paper.

    Raises:
        MissingExtra: matplotlib is not installed. UserError: no such kind of file can be written.
    """
    across = min(len(panels), COLUMNS[size])
    down = math.ceil(len(panels) / COLUMNS[size])
    width, height = _inches(across, down, len(rows), len(columns), size)
    points = 8 if size == "screen" else 7
    with figure_at(path, width, height, title=title, texts=(*rows, *columns)) as figure:
        axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        drawn: Any = None
        for axis, (name, weights) in zip(axes.flat, panels.items(), strict=False):
            drawn = axis.imshow(
                weights, cmap=colours(SEQUENTIAL), vmin=0, vmax=1, aspect="auto", interpolation="nearest"
            )
            axis.set_title(name, loc="left", fontsize=points + 1, color=INK)
            _name_cells(axis, rows, columns, points)
        bar = figure.colorbar(drawn, ax=axes, shrink=min(1.0, 3 / height), pad=0.02, aspect=30)
        bar.set_label("weight", color=INK, fontsize=points + 1)
        bar.ax.tick_params(colors=INK, length=0, labelsize=points)
        bar.outline.set_visible(False)
        figure.supxlabel(column_name, color=INK, fontsize=points + 2)
        figure.supylabel(row_name, color=INK, fontsize=points + 2)


def _inches(across: int, down: int, rows: int, columns: int, size: Size) -> tuple[float, float]:
    """How wide and high a figure of so many panels is."""
    wide, high = (min(max(CELL * count, 1.6), 9) for count in (columns, rows))
    width, height = across * (wide + 0.3) + 1.9, down * (high + 0.5) + 1.2
    if size == "screen":
        return width, height
    cell = (INCHES[size] - 1.6) / across / wide  # of a cell's usual width
    return INCHES[size], down * (max(high * min(cell, 1.0), 0.11 * rows) + 0.35) + 1.0


def draw_schedule(path: Path, rates: Sequence[float], *, title: str = "") -> None:
    """Write the learning rate over the updates, of which `rates` are all, from the first on."""
    with figure_at(path, 8, 3.2, title=title) as figure:
        axis = figure.subplots()
        axis.plot(range(1, len(rates) + 1), rates, color=HUES[0], linewidth=1.6)
        _bare(axis, "learning rate")
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("update", color=INK)
        axis.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")


def draw_positions(
    path: Path,
    *,
    table: Float[np.ndarray, "len d"] | None = None,
    similarity: Float[np.ndarray, "len len"] | None = None,
    bias: Float[np.ndarray, "heads len len"] | None = None,
    title: str = "",
) -> None:
    """Write what is known of positions: their table and its waves, how alike they are, what they add.

    Raises:
        ValueError: nothing is.
    """
    panels = [each for each in (table, similarity, bias) if each is not None]
    if not panels:
        raise ValueError("there is nothing to draw of positions")
    count = len(panels) + (table is not None)
    with figure_at(path, 4.4 * count + 0.4, 4.2, title=title) as figure:
        axes: list[Any] = list(figure.subplots(1, count, squeeze=False)[0])
        if table is not None:
            _map(figure, axes.pop(0), table, "table", "feature", "position", even=True)
            _waves(axes.pop(0), table)
        if similarity is not None:
            _map(figure, axes.pop(0), similarity, "how alike two are", "position", "position")
        if bias is not None:
            _bias(axes.pop(0), bias)


def _map(
    figure: Any,
    axis: "Axes",
    values: np.ndarray,
    name: str,
    across: str,
    down: str,
    *,
    even: bool = False,
) -> None:
    """A matrix in the page's colours; `even`: as far below 0 as above."""
    most = float(np.abs(values).max()) or 1.0
    limits: dict[str, Any] = {"vmin": -most, "vmax": most} if even else {}
    scale = colours(DIVERGING if even else SEQUENTIAL)
    image = axis.imshow(values, cmap=scale, aspect="auto", interpolation="nearest", **limits)
    axis.set_title(name, loc="left", fontsize=10, color=INK)
    axis.set_xlabel(across, color=INK)
    axis.set_ylabel(down, color=INK)
    axis.tick_params(colors=INK, length=0)
    figure.colorbar(image, ax=axis, shrink=0.8).outline.set_visible(False)


def _waves(axis: "Axes", table: np.ndarray) -> None:
    """A few features, from the quickest to the slowest, over the positions."""
    chosen = np.linspace(0, table.shape[1] // 2, WAVES, endpoint=False, dtype=int)
    for number, feature in enumerate(chosen.tolist()):
        axis.plot(
            table[:, feature], color=HUES[number % len(HUES)], linewidth=1.4, label=f"feature {feature}"
        )
    _bare(axis, "waves")
    axis.set_xlabel("position", color=INK)
    axis.legend(
        frameon=False, fontsize=8, labelcolor="linecolor", loc="lower right", bbox_to_anchor=(1, 1), ncols=2
    )


def _bias(axis: "Axes", bias: np.ndarray) -> None:
    """What the last position adds to its scores of each position before it, head by head."""
    last = bias[:, -1]
    for head, values in enumerate(last):
        axis.plot(values, linewidth=1.2, label=f"head {head}", **head_line(head))
    _bare(axis, "added to the scores of the last position")
    axis.set_xlabel("position looked at", color=INK)
    axis.legend(frameon=False, fontsize=7, labelcolor="linecolor", ncols=math.ceil(len(last) / 8))


def _name_cells(axis: "Axes", rows: Sequence[str], columns: Sequence[str], points: int) -> None:
    axis.tick_params(colors=INK, length=0, labelsize=points)
    axis.spines[:].set_color(PALE)
    if len(columns) <= NAMED:
        axis.set_xticks(range(len(columns)), [shown(token) for token in columns], rotation=90)
    if len(rows) <= NAMED:
        axis.set_yticks(range(len(rows)), [shown(token) for token in rows])


def shown(token: str) -> str:
    """A token as a label: no mathematics in it, and nothing that is not seen."""
    visible = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in token)
    return (visible.strip() or "\N{OPEN BOX}").replace("$", r"\$")


def _bare(axis: "Axes", name: str) -> None:
    axis.set_title(name, loc="left", fontsize=10, color=INK)
    axis.grid(axis="y", color=PALE, linewidth=0.6)
    axis.tick_params(colors=INK, length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.margins(x=0.01)
