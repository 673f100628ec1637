"""Tables, scores and confusion matrices on stdout."""

import math
from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from regard.console.streams import printable, say, stdout


@runtime_checkable
class ScoreLike(Protocol):
    """What `scores` prints: a score in percent, an optional interval, and a signature of its computation.

    `decimals` is how many are shown.
    """

    decimals: ClassVar[int]

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def signature(self) -> str: ...


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table to stdout; columns of numbers, empty cells aside, are aligned to the right."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    filled = [[row[i] for row in cells if row[i]] for i in range(len(columns))]
    right = [bool(column) and all(map(_is_number, column)) for column in filled]
    out = stdout()
    if out.is_terminal:
        grid = Table(
            title=title or None, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
        )
        for name, is_right in zip(columns, right, strict=True):
            grid.add_column(name, justify="right" if is_right else "left", overflow="fold")
        for row in cells:
            grid.add_row(*(Text(cell) for cell in row))
        out.print(grid, soft_wrap=False)
        return
    if title:
        out.print(Text(title))
    lines = [list(columns), *cells]
    widths = [max(cell_len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        padded = (
            " " * (width - cell_len(cell)) + cell if is_right else cell + " " * (width - cell_len(cell))
            for cell, width, is_right in zip(line, widths, right, strict=True)
        )
        out.print(Text("  ".join(padded).rstrip()))


def scores(title: str, found: Sequence[ScoreLike]) -> None:
    """Print scores to stdout, one a line: `BLEU 39.52 (38.11 to 40.93)` and its signature."""
    if title:
        stdout().print(Text(title, "bold"))
    for score in found:
        line = Text.assemble((score.name, "bold"), " ", (score_text(score), "bold cyan"))
        if score.low is not None and score.high is not None:
            line.append(f" ({score.low:z.{score.decimals}f} to {score.high:z.{score.decimals}f})")
        line.append(f"  {score.signature}", "dim")
        stdout().print(line)


def print_confusion(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> None:
    """Print a confusion matrix to stdout; `counts[i][j]` is how often class i was predicted as class j.

    Classes that neither occur nor are predicted are listed below it. If a terminal is too narrow for the
    matrix, each class has a line with its most frequent wrong prediction.
    """
    present = [i for i, row in enumerate(counts) if any(row) or any(other[i] for other in counts)]
    absent = [label for i, label in enumerate(labels) if i not in present]
    labels, counts = [labels[i] for i in present], [[counts[i][j] for j in present] for i in present]
    right = [row[i] for i, row in enumerate(counts)]
    actual, predicted = [sum(row) for row in counts], [sum(column) for column in zip(*counts, strict=True)]
    recall, precision = _shares(right, actual), _shares(right, predicted)
    columns = ["", *labels, "recall"]
    rows = [[label, *row, share] for label, row, share in zip(labels, counts, recall, strict=True)]
    rows.append(["precision", *precision, ""])
    widths = [max(cell_len(str(row[i])) for row in [columns, *rows]) for i in range(len(columns))]
    if not stdout().is_terminal or sum(widths) + 2 * len(widths) <= stdout().width:
        say("\nrows: true classes; columns: predicted classes")
        table("", columns, rows)
    else:
        confused_with = [_most_frequent_error(labels, row, i) for i, row in enumerate(counts)]
        shown = list(zip(labels, actual, precision, recall, confused_with, strict=True))
        table("", ["class", "count", "precision", "recall", "most often mistaken for"], shown)
    [accuracy] = _shares([sum(right)], [sum(actual)])
    say(f"accuracy {accuracy}: {sum(right):,} of {sum(actual):,}; all values in percent")
    if absent:
        say(f"neither occur nor are predicted: {', '.join(absent)}")


def _most_frequent_error(labels: Sequence[str], counts: Sequence[int], own: int) -> str:
    """The most frequent wrong prediction for class number `own`, and its count; empty if there is none."""
    wrong = max((j for j in range(len(labels)) if j != own), key=lambda j: counts[j], default=own)
    return f"{labels[wrong]} ({counts[wrong]:,})" if wrong != own and counts[wrong] else ""


def _shares(parts: Sequence[int], wholes: Sequence[int]) -> list[str]:
    """Percentages; 0 if the whole is 0."""
    return [f"{100 * part / max(whole, 1):.1f}" for part, whole in zip(parts, wholes, strict=True)]


def score_text(score: ScoreLike) -> str:
    """A score as text, such as `39.52`; exact match as `98.7 %`, rounded down."""
    if score.name == "exact match":
        return f"{math.floor(round(score.value * 10, 6)) / 10:.1f} %"
    return f"{score.value:z.{score.decimals}f}"


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").replace(".", "", 1).removeprefix("-").isdecimal()
