"""Figures for papers and slides: attention, alignments, positions, schedules."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from regard.inspection.figures import (
    DIVERGING,
    GRID_COLOUR,
    LINE_COLOURS,
    SEQUENTIAL,
    TEXT_COLOUR,
    colour_map,
    figure_at,
    head_line,
    style_axis,
)
from regard.inspection.tick_labels import SMALLEST, fit_labels, label, label_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FigureSize = Literal["screen", "column", "page"]
WIDTHS = {"column": 3.35, "page": 6.9}  # inches: one and two columns of a paper (IEEE, ACL)
MAX_PAPER_HEIGHT = 9.0  # inches: the height of a page without its margins
PANELS_ACROSS = {"screen": 4, "column": 2, "page": 4}  # at most
CELL_SIZE = 0.28  # inches
ROW_HEIGHT = 0.11  # inches: of a label in a figure for a paper
MIN_PANEL = 1.2  # inches: the least height of a panel in a figure for a paper
BESIDE = {"column": 0.3, "page": 0.95}  # inches: of the name of the rows, and of a colour bar at the right
MAX_MEASURED = 50  # labels of an axis that are measured: more take long
NOT_ALL = "one token in {step} is named"
NUM_WAVES = 4  # features of a position whose waves are drawn
MAX_WAVE_POSITIONS = 128  # of which waves are drawn: more of the shortest wave would be a solid block


def draw_attention(
    path: Path,
    panels: Mapping[str, Float[np.ndarray, "rows columns"]],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str = "",
    row_name: str = "",
    column_name: str = "",
    size: FigureSize = "screen",
) -> None:
    """Write attention maps with weights between 0 and 1, one panel for each name; darker is more.

    `size` "screen" gives each cell the same size; "column" and "page" fit one or two columns of a paper.
    Labels do not overlap: in smaller cells they are smaller. If they would be too small to read, some tokens
    have none, and the name of the axis says so.

    Raises:
        MissingExtra: matplotlib is not installed. UserError: the file type is not supported.
    """
    names = {"x": [label(each) for each in columns], "y": [label(each) for each in rows]}
    points = 8 if size == "screen" else 7
    across = _panels_across(len(panels), names["y"], len(columns), points, size)
    down = math.ceil(len(panels) / across)
    width, height = _figure_size(across, down, len(rows), len(columns), size)
    texts = [*names["x"], *names["y"]]
    with figure_at(path, width, height, title=title, title_points=points + 2, texts=texts) as figure:
        axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        if down > 1:  # the panels above those that are left free have the labels
            for axis in axes[-2, len(panels) - (down - 1) * across :]:
                axis.tick_params(axis="x", labelbottom=True)
        image: Any = None
        for axis, (name, weights) in zip(axes.flat, panels.items(), strict=False):
            image = axis.imshow(
                weights, cmap=colour_map(SEQUENTIAL), vmin=0, vmax=1, aspect="auto", interpolation="nearest"
            )
            axis.set_title(name, loc="left", fontsize=points + 1, color=TEXT_COLOUR)
            axis.spines[:].set_color(GRID_COLOUR)
        side = "top" if size == "column" else "right"
        length = 0.7 * WIDTHS["column"] / width if side == "top" else min(1.0, 3 / height)
        bar = figure.colorbar(image, ax=axes, location=side, shrink=length, pad=0.02, aspect=30)
        bar.set_label("weight", color=TEXT_COLOUR, fontsize=points + 1)
        bar.ax.tick_params(colors=TEXT_COLOUR, length=0, labelsize=points)
        bar.outline.set_visible(False)
        axis_names = {
            "x": figure.supxlabel(column_name, color=TEXT_COLOUR, fontsize=points + 2),
            "y": figure.supylabel(row_name, color=TEXT_COLOUR, fontsize=points + 2),
        }
        _name_cells(figure, axes, names, axis_names, points)


def _panels_across(panels: int, rows: Sequence[str], columns: int, points: int, size: FigureSize) -> int:
    """How many panels there are side by side.

    As many as leave room for a label at each column, in a figure for a paper: it becomes no higher than a
    page for that. If no number of them does, as many as there may be.
    """
    most = max(min(panels, PANELS_ACROSS[size]), 1)
    if size == "screen":
        return most
    named = max((label_width(each, points) for each in rows), default=0.0)
    room = 72 * (WIDTHS[size] - BESIDE[size]) - named
    for across in range(most, 0, -1):
        _, height = _figure_size(across, math.ceil(panels / across), len(rows), columns, size, limited=False)
        if height <= MAX_PAPER_HEIGHT and room / across - 6 >= 1.3 * SMALLEST * columns:
            return across
    return most


def _figure_size(
    across: int, down: int, rows: int, columns: int, size: FigureSize, *, limited: bool = True
) -> tuple[float, float]:
    """Width and height in inches of a figure with these panels; one for a paper is `limited` to a page."""
    cell_width, cells_height = (min(max(CELL_SIZE * count, 1.6), 9) for count in (columns, rows))
    width, height = across * (cell_width + 0.3) + 1.9, down * (cells_height + 0.5) + 1.2
    if size == "screen":
        return width, height
    cell = (WIDTHS[size] - BESIDE[size] - 0.65) / across / cell_width  # relative to CELL_SIZE
    above = 1.0 if size == "page" else 1.4  # with the bar
    panel = max(cells_height * min(cell, 1.0), ROW_HEIGHT * rows)
    if limited:
        panel = max(min(panel, (MAX_PAPER_HEIGHT - above) / down - 0.35), min(panel, MIN_PANEL))
    return WIDTHS[size], down * (panel + 0.35) + above


def _name_cells(
    figure: Any, axes: Any, names: Mapping[Any, list[str]], axis_names: Mapping[str, Any], points: int
) -> None:
    """Label rows and columns so that no two labels overlap; if some have none, name the axis so."""
    given = {each: text.get_text() for each, text in axis_names.items()}
    for each, labels in names.items():  # enough of them to measure, the longest one among them
        step = max(1, math.ceil(len(labels) / MAX_MEASURED))
        longest = max(labels, key=lambda text: label_width(text, points), default="")
        _set_labels(axes, each, [longest, *labels[1:]][: len(labels)], step, points)
        axis_names[each].set_text(f"{given[each]} ({NOT_ALL.format(step=step)})")
    figure.draw_without_rendering()
    for each, labels in names.items():
        fitting, step = fit_labels(axes[-1, 0], each, len(labels), points)
        _set_labels(axes, each, labels, step, fitting)
        note = f" ({NOT_ALL.format(step=step)})" if step > 1 else ""
        axis_names[each].set_text(f"{given[each]}{note}".strip())


def _set_labels(
    axes: Any, each: Literal["x", "y"], labels: list[str], step: int, points: int | float
) -> None:
    """Give every `step`-th row or column of each panel its label."""
    for axis in axes.flat:
        axis.tick_params(axis=each, colors=TEXT_COLOUR, length=0, labelsize=points)
        set_ticks = axis.set_xticks if each == "x" else axis.set_yticks
        set_ticks(range(0, len(labels), step), labels[::step], rotation=90 if each == "x" else 0)


def draw_schedule(path: Path, rates: Sequence[float], *, title: str = "") -> None:
    """Write the learning rate over the updates; `rates` has that of each update."""
    with figure_at(path, 8, 3.2, title=title) as figure:
        axis = figure.subplots()
        axis.plot(range(1, len(rates) + 1), rates, color=LINE_COLOURS[0], linewidth=1.6)
        style_axis(axis, "learning rate")
        axis.set_xlim(left=0)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("update", color=TEXT_COLOUR)
        axis.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")


MAX_BIASES = 8  # heads of which a figure has the matrix


def draw_positions(
    path: Path,
    *,
    table: Float[np.ndarray, "len d"] | None = None,
    similarity: Float[np.ndarray, "len len"] | None = None,
    bias: Float[np.ndarray, "heads len len"] | None = None,
    causal: bool = False,
    title: str = "",
) -> None:
    """Write a model's positions: their table and its waves, their similarity, or their bias.

    A bias is a line for each head if it depends on distance alone, otherwise a matrix for each of the first
    MAX_BIASES heads. If attention is `causal`, lines are those of earlier positions only.

    Raises:
        ValueError: all three are None.
    """
    panels = [each for each in (table, similarity, bias) if each is not None]
    if not panels:
        raise ValueError("give a table, a similarity or a bias to draw")
    biases = [] if bias is None or _depends_on_distance(bias) else [*bias[:MAX_BIASES]]
    count = len(panels) + (table is not None) + max(0, len(biases) - 1)
    lines = bias is not None and not biases
    with figure_at(path, (6.4 if lines else 4.4) * count + 0.4, 4.2, title=title) as figure:
        axes: list[Any] = list(figure.subplots(1, count, squeeze=False)[0])
        if table is not None:
            _draw_matrix(figure, axes.pop(0), table, "table", "feature", "position", symmetric=True)
            _draw_waves(axes.pop(0), table)
        if similarity is not None:
            _draw_matrix(figure, axes.pop(0), similarity, "similarity", "position", "position")
        if biases:
            for head, matrix in enumerate(biases):
                name = f"bias of head {head}" if len(biases) > 1 else "bias"
                _draw_matrix(figure, axes.pop(0), matrix, name, "key", "query", symmetric=True)
        elif bias is not None:
            _draw_bias(axes.pop(0), bias, causal=causal)


def _depends_on_distance(bias: Float[np.ndarray, "heads len len"]) -> bool:
    return np.array_equal(bias[:, 1:, 1:], bias[:, :-1, :-1])


def _draw_matrix(
    figure: Any,
    axis: "Axes",
    values: np.ndarray,
    name: str,
    across: str,
    down: str,
    *,
    symmetric: bool = False,
) -> None:
    """Draw a matrix in the page's colours; `symmetric` scales have 0 in the middle."""
    limit = float(np.abs(values).max()) or 1.0
    limits: dict[str, Any] = {"vmin": -limit, "vmax": limit} if symmetric else {}
    scale = colour_map(DIVERGING if symmetric else SEQUENTIAL)
    image = axis.imshow(values, cmap=scale, aspect="auto", interpolation="nearest", **limits)
    axis.set_title(name, loc="left", fontsize=10, color=TEXT_COLOUR)
    axis.set_xlabel(across, color=TEXT_COLOUR)
    axis.set_ylabel(down, color=TEXT_COLOUR)
    axis.tick_params(colors=TEXT_COLOUR, length=0)
    figure.colorbar(image, ax=axis, shrink=0.8).outline.set_visible(False)


def _draw_waves(axis: "Axes", table: np.ndarray) -> None:
    """Draw a few features over the first positions, from the highest frequency to the lowest."""
    features = np.linspace(0, table.shape[1] // 2, NUM_WAVES, endpoint=False, dtype=int)
    for number, feature in enumerate(features.tolist()):
        axis.plot(
            table[:MAX_WAVE_POSITIONS, feature],
            color=LINE_COLOURS[number % len(LINE_COLOURS)],
            linewidth=1.4,
            label=f"feature {feature}",
        )
    style_axis(axis, "waves")
    first = len(table) > MAX_WAVE_POSITIONS
    axis.set_xlabel(f"position (the first {MAX_WAVE_POSITIONS})" if first else "position", color=TEXT_COLOUR)
    axis.legend(
        frameon=False, fontsize=8, labelcolor="linecolor", loc="lower right", bbox_to_anchor=(1, 1), ncols=2
    )


def _draw_bias(axis: "Axes", bias: np.ndarray, *, causal: bool) -> None:
    """Draw the bias of a score by the offset from its query to its key, one line for each head."""
    length = bias.shape[-1]
    earlier, later = bias[:, -1], bias[:, 0, 1:]  # offsets from 1 - length to 0, and from 1
    by_offset = earlier if causal else np.concatenate([earlier, later], axis=1)
    offsets = range(1 - length, by_offset.shape[1] - length + 1)
    for head, values in enumerate(by_offset):
        axis.plot(offsets, values, linewidth=1.2, label=f"head {head}", **head_line(head))
    style_axis(axis, "bias of a score, for earlier keys" if causal else "bias of a score, in both directions")
    axis.set_xlabel("position of the key - position of the query", color=TEXT_COLOUR)
    columns = math.ceil(len(bias) / 16)
    axis.legend(
        *(axis.get_legend_handles_labels()),
        frameon=False,
        fontsize=7,
        labelcolor="linecolor",
        ncols=columns,
        loc="center left",
        bbox_to_anchor=(1, 0.5),
    )
