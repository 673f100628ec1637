"""Output to the terminal: results, notes, tables, progress bars, plots and attention maps.

Results go to stdout; progress, notes and warnings to stderr. A terminal gets bars and colours (no colours if
NO_COLOR is set); files and pipes get plain lines for grep, never wrapped or cut.
"""

import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from rich import progress as bars
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from regard.braille import MARKS, Canvas

COLOURS = ("cyan", "yellow", "magenta", "green")
REFRESH_SECONDS, SILENT_SECONDS = 0.5, 30.0  # between updates of progress: on a terminal, elsewhere
SHADES = " ░▒▓█"
SHADES_ASCII = " .:*#"


@runtime_checkable
class ScoreLike(Protocol):
    """What `scores` prints: a score in percent, an optional interval, and a signature of its computation."""

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


@functools.cache
def _out() -> Console:
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)


@functools.cache
def _err() -> Console:
    """The shared console of stderr, so that notes appear above a progress bar."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def _line(text: str) -> str:
    """The text with control characters replaced by spaces."""
    return "".join(character if character.isprintable() else " " for character in text)


def is_terminal() -> bool:
    """True if stdout is a terminal."""
    return _out().is_terminal


def notes_to_terminal() -> bool:
    """True if stderr is a terminal."""
    return _err().is_terminal


# Lines and tables


def say(text: str) -> None:
    """Print a result to stdout."""
    _out().print(Text(text))


def note(text: str) -> None:
    """Print a note to stderr."""
    _err().print(Text(_line(text)))


def warn(text: str) -> None:
    """Print a warning to stderr."""
    _err().print(Text.assemble(("warning:", "bold yellow"), " ", _line(text)))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table to stdout; columns of numbers, empty cells aside, are aligned to the right."""
    cells = [[_line(str(cell)) for cell in row] for row in rows]
    filled = [[row[i] for row in cells if row[i]] for i in range(len(columns))]
    right = [bool(column) and all(map(_is_number, column)) for column in filled]
    out = _out()
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
        _out().print(Text(title, "bold"))
    for score in found:
        line = Text.assemble((score.name, "bold"), " ", (score_text(score), "bold cyan"))
        if score.low is not None and score.high is not None:
            line.append(f" ({score.low:.2f} to {score.high:.2f})")
        line.append(f"  {score.signature}", "dim")
        _out().print(line)


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
    if not _out().is_terminal or sum(widths) + 2 * len(widths) <= _out().width:
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
    return f"{score.value:.2f}"


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").replace(".", "", 1).removeprefix("-").isdecimal()


# Progress


@runtime_checkable
class UpdateLike(Protocol):
    """What `Progress.update` shows of a weight update."""

    @property
    def step(self) -> int: ...
    @property
    def loss(self) -> float: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def targets(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def is_reported(self) -> bool: ...
    @property
    def left(self) -> "TimeLeftLike": ...


@runtime_checkable
class TimeLeftLike(Protocol):
    """The remaining seconds; `whole` is False if they lack the time of validations."""

    @property
    def seconds(self) -> float: ...
    @property
    def whole(self) -> bool: ...


class Progress:
    """The progress of a training run: a bar on a terminal, otherwise one line for each report.

    `report` takes the records of `metrics.jsonl` and `update` every weight update. The first update is
    shown, and later ones at most every REFRESH_SECONDS on a terminal, or after SILENT_SECONDS without a line
    elsewhere. The bar begins at `done` updates. A `+` after the remaining time means that it lacks the
    validations, because none was timed yet.
    """

    def __init__(self, total_steps: int, *, done: int = 0) -> None:
        self.total_steps, self.done = total_steps, done
        self._time_left: TimeLeftLike | None = None
        self._last_shown: float | None = None  # time of the last line or refresh
        self._seconds, self._targets = 0.0, 0  # sums over the updates since then
        self._bar: bars.Progress | None = None

    def __enter__(self) -> "Progress":
        if _err().is_terminal:
            self._bar = bars.Progress(
                bars.TextColumn("step {task.completed:,.0f}/{task.total:,.0f}"),
                bars.BarColumn(bar_width=None),
                bars.TextColumn("{task.fields[facts]}"),
                console=_err(),
                auto_refresh=False,  # `_show` refreshes it, so that training needs no second thread
                redirect_stdout=False,
                expand=True,
            )
            self._bar.start()
            self._bar.add_task("", total=self.total_steps, completed=self.done, facts="starting")
            self._bar.refresh()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def report(self, record: Mapping[str, Any]) -> None:
        """Show a record of `metrics.jsonl`."""
        kind, step = record.get("kind"), record.get("step", 0)
        if kind == "train":
            self._show(step, record["loss"], record["learning_rate"], record["tokens_per_second"])
            return
        facts = [f"{name} {_number(value)}" for name, value in record.items() if _is_fact(name, value)]
        _err().print(Text("  ".join([f"step {step}", str(kind), *facts]), "green" * (kind == "validation")))

    def update(self, update: UpdateLike) -> None:
        """Show an update if it is the first or enough time has passed since the last line or refresh."""
        self._time_left = update.left
        self._targets += update.targets
        self._seconds += update.seconds
        silent_for = math.inf if self._last_shown is None else time.monotonic() - self._last_shown
        if (
            silent_for >= (SILENT_SECONDS if self._bar is None else REFRESH_SECONDS)
            and not update.is_reported
        ):
            speed = self._targets / max(self._seconds, 1e-9)
            self._show(update.step, update.loss, update.learning_rate, speed)

    def _show(self, step: int, loss: float, rate: float, speed: float) -> None:
        left = "-:--:--"
        if self._time_left is not None:
            left = duration(self._time_left.seconds) + "+" * (not self._time_left.whole)
        facts = f"loss {_number(loss)}  lr {rate:.1e}  {speed:,.0f} tok/s  eta {left}"
        self._last_shown = time.monotonic()
        self._seconds, self._targets = 0.0, 0
        if self._bar is None:
            _err().print(Text(f"step {step}  {facts}"))
        else:
            self._bar.update(bars.TaskID(0), completed=step, facts=facts, refresh=True)


def duration(seconds: float) -> str:
    """Hours, minutes, seconds: `1:02:09`."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def _is_fact(name: str, value: object) -> bool:
    return name not in ("kind", "step", "epoch", "distinct_outputs") and isinstance(value, int | float)


def _number(value: int | float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}"


class LinesProgress:
    """The progress over the lines of a file: a bar with speed and time left on a terminal, else nothing."""

    MIN_SECONDS = 0.1  # between two refreshes

    def __init__(self, total: int) -> None:
        self.total, self._done = total, 0
        self._start_time = self._last_drawn = time.monotonic()
        self._bar: bars.Progress | None = None

    def __enter__(self) -> "LinesProgress":
        if _err().is_terminal:
            self._bar = bars.Progress(
                bars.TextColumn("{task.completed:,.0f}/{task.total:,.0f} lines"),
                bars.BarColumn(bar_width=None),
                bars.TextColumn("{task.fields[facts]}"),
                console=_err(),
                auto_refresh=False,  # `advance` refreshes it: no thread in a process that forks workers
                redirect_stdout=False,
                expand=True,
            )
            self._bar.start()
            self._bar.add_task("", total=self.total, facts=self._facts(self._start_time))
            self._bar.refresh()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._draw(time.monotonic())
            self._bar.stop()

    def advance(self, lines: int) -> None:
        """Count `lines` more lines as done."""
        self._done += lines
        now = time.monotonic()
        if self._bar is not None and now - self._last_drawn >= self.MIN_SECONDS:
            self._draw(now)

    def _draw(self, now: float) -> None:
        assert self._bar is not None
        self._last_drawn = now
        self._bar.update(bars.TaskID(0), completed=self._done, facts=self._facts(now), refresh=True)

    def _facts(self, now: float) -> str:
        if not self._done or now <= self._start_time:
            return "eta -:--:--"
        speed = self._done / (now - self._start_time)
        left = max(self.total - self._done, 0) / speed
        return f"{speed:,.1f} lines/s  eta {duration(left)}"


@contextmanager
def downloads() -> Iterator[Callable[[str, int, int | None], None]]:
    """A function `progress(path, bytes done, total bytes)`: a bar for each path, or a line at its end."""
    if not _err().is_terminal:
        yield lambda path, done, total: note(f"{path}  {done:,} bytes") if done == total else None
        return
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=_err(), redirect_stdout=False) as bar:
        tasks: dict[str, bars.TaskID] = {}

        def progress(path: str, done: int, total: int | None) -> None:
            if path not in tasks:
                tasks[path] = bar.add_task(_line(path), total=None)
            bar.update(tasks[path], completed=done, total=total)

        yield progress


# Plots

Points = Sequence[tuple[int, float]]  # step and value


def plot(title: str, series: Mapping[str, Points], *, log: bool = False, height: int = 10) -> None:
    """Plot curves to stdout in braille dots, with a logarithmic y axis if `log`; empty series are skipped."""
    plotted = {name: points for name, points in series.items() if points}
    if not plotted:
        return
    out = _out()
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
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _share(value: int | float, low: int | float, high: int | float, *, log: bool) -> float:
    """The position of a value on its axis, from 0 to 1."""
    if log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low) if high > low else 0.5


# Attention


def alignment(source: Sequence[str], target: Sequence[str], weights: Sequence[Sequence[float]]) -> None:
    """Print attention weights to stdout: rows are target tokens, columns source tokens.

    Cells are coloured on a terminal and shaded elsewhere. Source tokens are written vertically; columns
    beyond the terminal's width continue below.
    """
    out = _out()
    source, target = [_line(token) for token in source], [_line(token) for token in target]
    margin = max(map(cell_len, target), default=0) + 1
    columns_at_once = max((out.width - margin) // 2, 1) if out.is_terminal else max(len(source), 1)
    shades = SHADES if out.encoding.startswith("utf") else SHADES_ASCII
    coloured = out.is_terminal and out.color_system is not None and not out.no_color
    for start in range(0, len(source), columns_at_once):
        part = source[start : start + columns_at_once]
        height = max(map(len, part))
        for row in range(height):
            letters = [token.rjust(height)[row] for token in part]
            out.print(Text((" " * margin + "".join(map(_two_wide, letters))).rstrip()))
        for token, row_weights in zip(target, weights, strict=True):
            line = Text(" " * (margin - 1 - cell_len(token)) + token + " ")
            for weight in row_weights[start : start + columns_at_once]:
                if coloured:
                    line.append("  ", _heat(weight))
                else:
                    line.append(shades[_level(weight)] * 2)
            if not coloured:
                line.rstrip()
            out.print(line)


def _two_wide(letter: str) -> str:
    return letter + " " * (2 - cell_len(letter))


def _level(weight: float) -> int:
    """The shade of a weight, from 0 (below 0.05) to 4 (0.67 or more)."""
    return sum(weight >= bound for bound in (0.05, 0.2, 0.4, 0.67))


def _heat(weight: float) -> str:
    """The background of a weight, from grey, visible on dark and light, to orange; none below 0.02."""
    if weight < 0.02:
        return ""
    share = min(math.sqrt(weight), 1.0)
    red, green, blue = (round(a + (b - a) * share) for a, b in ((96, 255), (96, 140), (96, 0)))
    return f"on rgb({red},{green},{blue})"
