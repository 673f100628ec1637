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
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FigureSize = Literal["screen", "column", "page"]
WIDTHS = {"column": 3.35, "page": 6.9}  # inches: one and two columns of a paper (IEEE, ACL)
PANELS_ACROSS = {"screen": 4, "column": 2, "page": 4}  # at most
MAX_LABELLED_TOKENS = 80  # an axis with more tokens has no labels
CELL_SIZE = 0.28  # inches
NUM_WAVES = 4  # features of a position whose waves are drawn


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

    Raises:
        MissingExtra: matplotlib is not installed. UserError: the file type is not supported.
    """
    across = min(len(panels), PANELS_ACROSS[size])
    down = math.ceil(len(panels) / PANELS_ACROSS[size])
    width, height = _figure_size(across, down, len(rows), len(columns), size)
    points = 8 if size == "screen" else 7
    with figure_at(path, width, height, title=title, texts=(*rows, *columns)) as figure:
        axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        image: Any = None
        for axis, (name, weights) in zip(axes.flat, panels.items(), strict=False):
            image = axis.imshow(
                weights, cmap=colour_map(SEQUENTIAL), vmin=0, vmax=1, aspect="auto", interpolation="nearest"
            )
            axis.set_title(name, loc="left", fontsize=points + 1, color=TEXT_COLOUR)
            _name_cells(axis, rows, columns, points)
        bar = figure.colorbar(image, ax=axes, shrink=min(1.0, 3 / height), pad=0.02, aspect=30)
        bar.set_label("weight", color=TEXT_COLOUR, fontsize=points + 1)
        bar.ax.tick_params(colors=TEXT_COLOUR, length=0, labelsize=points)
        bar.outline.set_visible(False)
        figure.supxlabel(column_name, color=TEXT_COLOUR, fontsize=points + 2)
        figure.supylabel(row_name, color=TEXT_COLOUR, fontsize=points + 2)


def _figure_size(across: int, down: int, rows: int, columns: int, size: FigureSize) -> tuple[float, float]:
    """Width and height in inches of a figure with these panels."""
    cell_width, cells_height = (min(max(CELL_SIZE * count, 1.6), 9) for count in (columns, rows))
    width, height = across * (cell_width + 0.3) + 1.9, down * (cells_height + 0.5) + 1.2
    if size == "screen":
        return width, height
    cell = (WIDTHS[size] - 1.6) / across / cell_width  # relative to CELL_SIZE
    return WIDTHS[size], down * (max(cells_height * min(cell, 1.0), 0.11 * rows) + 0.35) + 1.0


def draw_schedule(path: Path, rates: Sequence[float], *, title: str = "") -> None:
    """Write the learning rate over the updates; `rates` has that of each update."""
    with figure_at(path, 8, 3.2, title=title) as figure:
        axis = figure.subplots()
        axis.plot(range(1, len(rates) + 1), rates, color=LINE_COLOURS[0], linewidth=1.6)
        _style_axis(axis, "learning rate")
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
    title: str = "",
) -> None:
    """Write a model's positions: their table and its waves, their similarity, or their bias.

    A bias is a line for each head if it depends on distance alone, otherwise a matrix for each of the first
    MAX_BIASES heads.

    Raises:
        ValueError: all three are None.
    """
    panels = [each for each in (table, similarity, bias) if each is not None]
    if not panels:
        raise ValueError("give a table, a similarity or a bias to draw")
    biases = [] if bias is None or _depends_on_distance(bias) else [*bias[:MAX_BIASES]]
    count = len(panels) + (table is not None) + max(0, len(biases) - 1)
    with figure_at(path, 4.4 * count + 0.4, 4.2, title=title) as figure:
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
            _draw_bias(axes.pop(0), bias)


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
    """Draw a few features over the positions, from the highest frequency to the lowest."""
    features = np.linspace(0, table.shape[1] // 2, NUM_WAVES, endpoint=False, dtype=int)
    for number, feature in enumerate(features.tolist()):
        axis.plot(
            table[:, feature],
            color=LINE_COLOURS[number % len(LINE_COLOURS)],
            linewidth=1.4,
            label=f"feature {feature}",
        )
    _style_axis(axis, "waves")
    axis.set_xlabel("position", color=TEXT_COLOUR)
    axis.legend(
        frameon=False, fontsize=8, labelcolor="linecolor", loc="lower right", bbox_to_anchor=(1, 1), ncols=2
    )


def _draw_bias(axis: "Axes", bias: np.ndarray) -> None:
    """Draw the bias of the last position's scores for each position, one line for each head."""
    last = bias[:, -1]
    for head, values in enumerate(last):
        axis.plot(values, linewidth=1.2, label=f"head {head}", **head_line(head))
    _style_axis(axis, "bias of the last position's scores")
    axis.set_xlabel("attended position", color=TEXT_COLOUR)
    axis.legend(frameon=False, fontsize=7, labelcolor="linecolor", ncols=math.ceil(len(last) / 8))


def _name_cells(axis: "Axes", rows: Sequence[str], columns: Sequence[str], points: int) -> None:
    axis.tick_params(colors=TEXT_COLOUR, length=0, labelsize=points)
    axis.spines[:].set_color(GRID_COLOUR)
    if len(columns) <= MAX_LABELLED_TOKENS:
        axis.set_xticks(range(len(columns)), [label(token) for token in columns], rotation=90)
    if len(rows) <= MAX_LABELLED_TOKENS:
        axis.set_yticks(range(len(rows)), [label(token) for token in rows])


def label(token: str) -> str:
    """A token as a label: `$` is escaped for matplotlib, invisible characters are replaced."""
    visible = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in token
    )
    return (visible.strip() or "\N{OPEN BOX}").replace("$", r"\$")


def _style_axis(axis: "Axes", name: str) -> None:
    axis.set_title(name, loc="left", fontsize=10, color=TEXT_COLOUR)
    axis.grid(axis="y", color=GRID_COLOUR, linewidth=0.6)
    axis.tick_params(colors=TEXT_COLOUR, length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.margins(x=0.01)
