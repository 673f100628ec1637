"""The records of a run in `metrics.jsonl`: updates with their speed, validations, and what went wrong."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from regard.training.launch import LaunchedUpdate
from regard.training.state import TrainingState
from regard.weights.checkpoint import RunFolder

Report = Callable[[dict[str, Any]], None]


class Records:
    """Writes the records of a run, and hands each to `report`.

    In a run of several processes only the first writes: all others do nothing.
    """

    def __init__(self, run: RunFolder, report: Report, *, writes: bool) -> None:
        self.report, self._run, self._writes = report, run, writes
        self._since = time.perf_counter(), 0  # time and target tokens at the last record of an update

    def add(self, record: dict[str, Any]) -> None:
        """Append a record."""
        if self._writes:
            self._run.append_metrics(record)
            self.report(record)

    def add_update(self, launched: LaunchedUpdate, norm: float, state: TrainingState) -> None:
        """Append the mean loss since the last such record, which `state` counts again from here on."""
        now, (began, tokens) = time.perf_counter(), self._since
        record = {
            "kind": "train",
            "step": launched.step,
            "epoch": launched.epoch,
            "loss": state.window_nll / state.window_tokens,
            "learning_rate": launched.rate,
            "gradient_norm": norm,
            "target_tokens": state.target_tokens,
            "tokens_per_second": (state.target_tokens - tokens) / (now - began),
        }
        self.add(record)
        state.window_nll, state.window_tokens = 0.0, 0
        self._since = now, state.target_tokens

    def exclude(self, seconds: float) -> None:
        """Do not count the last `seconds` as training: tokens per second are of training only."""
        began, tokens = self._since
        self._since = began + seconds, tokens

    def restart(self, target_tokens: int) -> None:
        """Measure tokens per second from now on; `target_tokens` have been counted so far."""
        self._since = time.perf_counter(), target_tokens

    def cut(self, step: int, collapses: Iterable[dict[str, Any]]) -> None:
        """Remove the records after `step`, and add missing records of collapses."""
        if not self._writes:
            return
        self._run.cut_metrics(step)
        recorded = self._run.metrics()
        for found in collapses:
            if found not in recorded:
                self.add(found)

    def has_average(self, step: int) -> bool:
        """True if the mean of the last checkpoints was validated at this step."""
        return any(record["kind"] == "average" and record["step"] == step for record in self._run.metrics())
