"""Progress, tables and plots in the terminal: the one file that knows the terminal.

Results go to stdout; progress, notes and warnings to stderr. On a terminal there are bars and colours
(none where NO_COLOR is set), elsewhere plain lines for grep, never wrapped and never cut.
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

HUES = ("cyan", "yellow", "magenta", "green")
REFRESH, SILENCE = 0.5, 30.0  # seconds after which progress is shown anew: on a terminal, elsewhere
SHADES = " ░▒▓█"
SHADES_ASCII = " .:*#"


@runtime_checkable
class ScoreLike(Protocol):
    """What `scores` shows: a score in percent, perhaps with an interval, and how it was computed."""

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
    """One for all, so that a note appears above a bar rather than through it."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def _line(text: str) -> str:
    """The text in one line that moves no cursor, whatever is in it."""
    return "".join(character if character.isprintable() else " " for character in text)


def is_terminal() -> bool:
    """Whether results go to a terminal, where there is room for colours and tables."""
    return _out().is_terminal


def notes_to_terminal() -> bool:
    """Whether notes and progress go to a terminal."""
    return _err().is_terminal


# Words and tables


def say(text: str) -> None:
    """A result, to stdout."""
    _out().print(Text(text))


def note(text: str) -> None:
    """Something worth knowing, to stderr."""
    _err().print(Text(_line(text)))


def warn(text: str) -> None:
    """Something that may be wrong, to stderr."""
    _err().print(Text.assemble(("warning:", "bold yellow"), " ", _line(text)))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table to stdout; a column of numbers only, gaps apart, is set to the right."""
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
    """Scores to stdout, one a line: `BLEU 39.52 (38.11 to 40.93)` and its signature."""
    if title:
        _out().print(Text(title, "bold"))
    for score in found:
        line = Text.assemble((score.name, "bold"), " ", (score_text(score), "bold cyan"))
        if score.low is not None and score.high is not None:
            line.append(f" ({score.low:.2f} to {score.high:.2f})")
        line.append(f"  {score.signature}", "dim")
        _out().print(line)


def confusion(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> None:
    """Which classes are taken for which, to stdout: `counts[i][j]` says how often class i is for class j.

    Classes that neither occur nor are said are named below. Where a terminal has no room for as many
    columns, a line for each class says which other it is taken for most often.
    """
    met = [i for i, row in enumerate(counts) if any(row) or any(other[i] for other in counts)]
    absent = [label for i, label in enumerate(labels) if i not in met]
    labels, counts = [labels[i] for i in met], [[counts[i][j] for j in met] for i in met]
    right = [row[i] for i, row in enumerate(counts)]
    true, said = [sum(row) for row in counts], [sum(column) for column in zip(*counts, strict=True)]
    recall, precision = _shares(right, true), _shares(right, said)
    columns = ["", *labels, "recall"]
    rows = [[label, *row, share] for label, row, share in zip(labels, counts, recall, strict=True)]
    rows.append(["precision", *precision, ""])
    widths = [max(cell_len(str(row[i])) for row in [columns, *rows]) for i in range(len(columns))]
    if not _out().is_terminal or sum(widths) + 2 * len(widths) <= _out().width:
        say("\nrows: what it is; columns: what the model says")
        table("", columns, rows)
    else:
        taken_for = [_most_taken_for(labels, row, i) for i, row in enumerate(counts)]
        shown = list(zip(labels, true, precision, recall, taken_for, strict=True))
        table("", ["class", "count", "precision", "recall", "taken for"], shown)
    [accuracy] = _shares([sum(right)], [sum(true)])
    say(f"accuracy {accuracy}: {sum(right):,} of {sum(true):,}; all shares in percent")
    if absent:
        say(f"neither occurs nor is said: {', '.join(absent)}")


def _most_taken_for(labels: Sequence[str], counts: Sequence[int], own: int) -> str:
    """The class that another, number `own`, is taken for most often, and how often."""
    wrong = max((j for j in range(len(labels)) if j != own), key=lambda j: counts[j], default=own)
    return f"{labels[wrong]} ({counts[wrong]:,})" if wrong != own and counts[wrong] else ""


def _shares(parts: Sequence[int], wholes: Sequence[int]) -> list[str]:
    """In percent; of nothing 0."""
    return [f"{100 * part / max(whole, 1):.1f}" for part, whole in zip(parts, wholes, strict=True)]


def score_text(score: ScoreLike) -> str:
    """`39.52`; a share of right answers `98.7 %`, never rounded up to what was not reached."""
    if score.name == "exact match":
        return f"{math.floor(round(score.value * 10, 6)) / 10:.1f} %"
    return f"{score.value:.2f}"


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").replace(".", "", 1).removeprefix("-").isdecimal()


# Progress


@runtime_checkable
class UpdateLike(Protocol):
    """What `Progress.update` shows of an update of the weights."""

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
    """Seconds that are left; `whole`: whether nothing is missing from them."""

    @property
    def seconds(self) -> float: ...
    @property
    def whole(self) -> bool: ...


class Progress:
    """How far a training run is: a bar on a terminal, else one line for each report.

    `report` takes the records that go to `metrics.jsonl`; `update` each update. Of these the first is shown,
    and later ones as often as a terminal can show them or, elsewhere, where nothing was said for a while. The
    bar begins at `done` updates. A `+` after the time left: validations come on top, of which none was timed.
    """

    def __init__(self, total_steps: int, *, done: int = 0) -> None:
        self.total_steps, self.done = total_steps, done
        self._left: TimeLeftLike | None = None
        self._shown: float | None = None  # when an update or a report was shown last
        self._seconds, self._targets = 0.0, 0  # of the updates since then
        self._bar: bars.Progress | None = None

    def __enter__(self) -> "Progress":
        if _err().is_terminal:
            self._bar = bars.Progress(
                bars.TextColumn("step {task.completed:,.0f}/{task.total:,.0f}"),
                bars.BarColumn(bar_width=None),
                bars.TextColumn("{task.fields[facts]}"),
                console=_err(),
                auto_refresh=False,  # a report refreshes it: no thread beside the training
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
        kind, step = record.get("kind"), record.get("step", 0)
        if kind == "train":
            self._show(step, record["loss"], record["learning_rate"], record["tokens_per_second"])
            return
        facts = [f"{name} {_number(value)}" for name, value in record.items() if _is_fact(name, value)]
        _err().print(Text("  ".join([f"step {step}", str(kind), *facts]), "green" * (kind == "validation")))

    def update(self, update: UpdateLike) -> None:
        """Show it, if it is the first or time has passed; what is left is told with the next report, too."""
        self._left = update.left
        self._targets += update.targets
        self._seconds += update.seconds
        silence = math.inf if self._shown is None else time.monotonic() - self._shown
        if silence >= (SILENCE if self._bar is None else REFRESH) and not update.is_reported:
            speed = self._targets / max(self._seconds, 1e-9)
            self._show(update.step, update.loss, update.learning_rate, speed)

    def _show(self, step: int, loss: float, rate: float, speed: float) -> None:
        left = "-:--:--"
        if self._left is not None:
            left = duration(self._left.seconds) + "+" * (not self._left.whole)
        facts = f"loss {_number(loss)}  lr {rate:.1e}  {speed:,.0f} tok/s  eta {left}"
        self._shown = time.monotonic()
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
    """How many lines of a file are done: a bar with speed and time left on a terminal, else nothing."""

    LEAST = 0.1  # seconds between two drawings

    def __init__(self, total: int) -> None:
        self.total, self._done = total, 0
        self._began = self._drawn = time.monotonic()
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
            self._bar.add_task("", total=self.total, facts=self._facts(self._began))
            self._bar.refresh()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._draw(time.monotonic())
            self._bar.stop()

    def advance(self, lines: int) -> None:
        """So many more lines are done."""
        self._done += lines
        now = time.monotonic()
        if self._bar is not None and now - self._drawn >= self.LEAST:
            self._draw(now)

    def _draw(self, now: float) -> None:
        assert self._bar is not None
        self._drawn = now
        self._bar.update(bars.TaskID(0), completed=self._done, facts=self._facts(now), refresh=True)

    def _facts(self, now: float) -> str:
        if not self._done or now <= self._began:
            return "eta -:--:--"
        speed = self._done / (now - self._began)
        left = max(self.total - self._done, 0) / speed
        return f"{speed:,.1f} lines/s  eta {duration(left)}"


@contextmanager
def downloads() -> Iterator[Callable[[str, int, int | None], None]]:
    """Gives `progress(path, bytes done, bytes in all)`: a bar for each path, else a line when it is whole."""
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
    """Curves to stdout, in braille dots; `log` for a logarithmic axis. A series of no points is left out."""
    drawn = {name: points for name, points in series.items() if points}
    if not drawn:
        return
    out = _out()
    ends = [point for points in drawn.values() for point in points]
    x_low, x_high = min(x for x, _ in ends), max(x for x, _ in ends)
    y_low, y_high = min(y for _, y in ends), max(y for _, y in ends)
    log = log and y_low > 0
    labels = [f"{_tick(y_high)} ", f"{_tick(y_low)} "]
    margin = max(map(len, labels))
    canvas = Canvas(max(min(out.width, 100) - margin - 2, 10), height)
    for number, points in enumerate(drawn.values()):
        places = [
            (_share(x, x_low, x_high, log=False), _share(y, y_low, y_high, log=log))
            for x, y in sorted(points)
        ]
        canvas.line(places, number)
        if number:
            canvas.marks(places, number)
    legend = [Text(f"{MARKS[i % 4] or '·'} {name}", HUES[i % 4]) for i, name in enumerate(drawn)]
    out.print(Text.assemble((title, "bold"), "   ", Text("   ").join(legend)))
    for row, cells in enumerate(canvas.rows(ascii_only=not out.encoding.startswith("utf"))):
        label = labels[0] if row == 0 else labels[1] if row == height - 1 else ""
        hued = [(drawn, HUES[series % 4]) if series is not None else drawn for drawn, series in cells]
        out.print(Text.assemble(label.rjust(margin), "|", *hued))
    first, last = f"step {x_low:,.0f}", f"{x_high:,.0f}"
    out.print(Text(" " * (margin + 1) + first + last.rjust(canvas.width - len(first))))


def _tick(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _share(value: int | float, low: int | float, high: int | float, *, log: bool) -> float:
    """Where a value lies between the ends of its axis, from 0 to 1."""
    if log:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low) if high > low else 0.5


# Alignments


def alignment(source: Sequence[str], target: Sequence[str], weights: Sequence[Sequence[float]]) -> None:
    """How much each target token (a row) looks at each source token (a column), to stdout.

    On a terminal the cells are coloured, elsewhere shaded. Source tokens are written downwards; what is
    wider than the terminal is continued below.
    """
    out = _out()
    source, target = [_line(token) for token in source], [_line(token) for token in target]
    margin = max(map(cell_len, target), default=0) + 1
    at_once = max((out.width - margin) // 2, 1) if out.is_terminal else max(len(source), 1)
    shades = SHADES if out.encoding.startswith("utf") else SHADES_ASCII
    coloured = out.is_terminal and out.color_system is not None and not out.no_color
    for start in range(0, len(source), at_once):
        part = source[start : start + at_once]
        height = max(map(len, part))
        for row in range(height):
            letters = [token.rjust(height)[row] for token in part]
            out.print(Text((" " * margin + "".join(map(_two_wide, letters))).rstrip()))
        for token, row_weights in zip(target, weights, strict=True):
            line = Text(" " * (margin - 1 - cell_len(token)) + token + " ")
            for weight in row_weights[start : start + at_once]:
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
    """0 to 4: what is under a twentieth is nothing, what is over two thirds is all."""
    return sum(weight >= bound for bound in (0.05, 0.2, 0.4, 0.67))


def _heat(weight: float) -> str:
    """From grey, which shows on dark and on light, to orange; nothing is nothing."""
    if weight < 0.02:
        return ""
    share = min(math.sqrt(weight), 1.0)
    red, green, blue = (round(a + (b - a) * share) for a, b in ((96, 255), (96, 140), (96, 0)))
    return f"on rgb({red},{green},{blue})"
