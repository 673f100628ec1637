"""Progress on stderr: of a training run, of the lines of a file, of downloads.

On a terminal it is a bar of rich, elsewhere lines.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

from rich import progress as bars
from rich.text import Text

from regard.console.streams import note, printable, stderr

REFRESH_SECONDS, SILENT_SECONDS = 0.5, 30.0  # between updates of a training run: on a terminal, elsewhere
LINES_REFRESH_SECONDS = 0.1  # between refreshes of the lines of a file


@runtime_checkable
class UpdateLike(Protocol):
    """What `Progress.update` reads of an update of the weights (`training/`, which imports no console)."""

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


def started_bar(counts: str, total: int, facts: str, *, done: int = 0) -> bars.Progress | None:
    """A bar with `counts` before it and `facts` after it; None if stderr is not a terminal.

    The caller refreshes it: a thread that does would disturb training and the forking of processes.
    """
    if not stderr().is_terminal:
        return None
    bar = bars.Progress(
        bars.TextColumn(counts),
        bars.BarColumn(bar_width=None),
        bars.TextColumn("{task.fields[facts]}"),
        console=stderr(),
        auto_refresh=False,
        redirect_stdout=False,
        expand=True,
    )
    bar.start()
    bar.add_task("", total=total, completed=done, facts=facts)
    bar.refresh()
    return bar


class Progress:
    """The progress of a training run: a bar on a terminal, otherwise one line for each report.

    `report` takes the records of `metrics.jsonl` and `update` every weight update. The first update is
    shown, and later ones at most every REFRESH_SECONDS on a terminal, or after SILENT_SECONDS without a line
    elsewhere. The bar begins at `done` updates. `unit` names what the speed counts. A `+` after the remaining
    time means that it lacks the validations, because none was timed yet.
    """

    def __init__(self, total_steps: int, *, done: int = 0, unit: str = "tok") -> None:
        self.total_steps, self.done, self.unit = total_steps, done, unit
        self._time_left: TimeLeftLike | None = None
        self._last_shown: float | None = None  # time of the last line or refresh
        self._seconds, self._targets = 0.0, 0  # sums over the updates since then
        self._bar: bars.Progress | None = None

    def __enter__(self) -> "Progress":
        counts = "step {task.completed:,.0f}/{task.total:,.0f}"
        self._bar = started_bar(counts, self.total_steps, "starting", done=self.done)
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
        facts = [f"{name} {_number(value)}" for name, value in record.items() if _is_shown(name, value)]
        style = "green" if kind == "validation" else ""
        stderr().print(Text("  ".join([f"step {step}", str(kind), *facts]), style))

    def update(self, update: UpdateLike) -> None:
        """Show an update if it is the first or enough time has passed since the last line or refresh."""
        self._time_left = update.left
        self._targets += update.targets
        self._seconds += update.seconds
        pause = SILENT_SECONDS if self._bar is None else REFRESH_SECONDS
        is_due = self._last_shown is None or time.monotonic() - self._last_shown >= pause
        if is_due and not update.is_reported:  # `report` shows it otherwise
            speed = self._targets / max(self._seconds, 1e-9)
            self._show(update.step, update.loss, update.learning_rate, speed)

    def _show(self, step: int, loss: float, rate: float, speed: float) -> None:
        left = "-:--:--"
        if self._time_left is not None:
            left = duration(self._time_left.seconds) + ("" if self._time_left.whole else "+")
        facts = f"loss {_number(loss)}  lr {rate:.1e}  {speed:,.0f} {self.unit}/s  eta {left}"
        self._last_shown = time.monotonic()
        self._seconds, self._targets = 0.0, 0
        if self._bar is None:
            stderr().print(Text(f"step {step}  {facts}"))
        else:
            self._bar.update(bars.TaskID(0), completed=step, facts=facts, refresh=True)


def duration(seconds: float) -> str:
    """Hours, minutes, seconds: `1:02:09`."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def _is_shown(name: str, value: object) -> bool:
    return name not in ("kind", "step", "epoch", "distinct_outputs") and isinstance(value, int | float)


def _number(value: int | float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}"


class LinesProgress:
    """The progress over the lines of a file: a bar with speed and time left on a terminal, else nothing."""

    def __init__(self, total: int) -> None:
        self.total, self._done = total, 0
        self._start_time = self._last_drawn = time.monotonic()
        self._bar: bars.Progress | None = None

    def __enter__(self) -> "LinesProgress":
        counts = "{task.completed:,.0f}/{task.total:,.0f} lines"
        self._bar = started_bar(counts, self.total, self._facts(self._start_time))
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._draw(time.monotonic())
            self._bar.stop()

    def advance(self, lines: int) -> None:
        """Count `lines` more lines as done."""
        self._done += lines
        now = time.monotonic()
        if self._bar is not None and now - self._last_drawn >= LINES_REFRESH_SECONDS:
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
    if not stderr().is_terminal:
        yield lambda path, done, total: note(f"{path}  {done:,} bytes") if done == total else None
        return
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.DownloadColumn(),
        bars.TransferSpeedColumn(),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(*columns, console=stderr(), redirect_stdout=False) as bar:
        tasks: dict[str, bars.TaskID] = {}

        def progress(path: str, done: int, total: int | None) -> None:
            if path not in tasks:
                tasks[path] = bar.add_task(printable(path), total=None)
            bar.update(tasks[path], completed=done, total=total)

        yield progress
