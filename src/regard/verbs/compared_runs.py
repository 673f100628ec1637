"""The runs of a folder side by side: the settings in which they differ, their scores and their time."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.errors import FolderError, UserError
from regard.jobs.tasks import flattened
from regard.training.settings import METRICS, TrainingSettings
from regard.verbs.shared.arguments import checked
from regard.verbs.training_run.final_scores import best_validation
from regard.weights.checkpoint import REFIT, RESOLVED, Checkpoint, RunFolder
from regard.weights.folder import read_json

LOSS = "loss"


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One run: the scores are those of its best model so far; what it does not have yet is empty or None."""

    run: str  # its path within the folder
    settings: dict[str, Any]  # `section.key` -> value, of those in which the runs differ; None: not given
    steps: int  # updates so far
    validation: dict[str, float]
    test: dict[str, float]
    seconds: float | None  # of training, validation and saving, of a second run (refit) too


@dataclass(frozen=True, kw_only=True)
class ComparedRuns:
    """The runs of a folder, the best first by the validation score `metric`; those without one are last."""

    metric: str
    runs: tuple[ComparedRun, ...]

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings in which the runs differ."""
        return tuple(dict.fromkeys(key for each in self.runs for key in each.settings))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@checked
def compare_runs(folder: str | Path) -> ComparedRuns:
    """Compare the runs in a folder, such as those of a sweep: what differs, and which is the best.

    The best is by the score that selects the best model in all of the runs (`training.best_metric`), or by
    the validation loss if they have different ones.

    Args:
        folder: the folder of the run folders, such as `--out` of a sweep.

    Raises:
        FolderError: it has no runs.
    """
    path = Path(folder).expanduser()
    found = runs_in(path)
    if not found:
        raise FolderError(
            f"{folder} has no runs", "name the folder of a sweep, or one with run folders in it"
        )
    tables = {run: dict(flattened(_recipe_of(run), ".")) for run in found}
    metrics = {table.get("training.best_metric", TrainingSettings().best_metric) for table in tables.values()}
    metric = metrics.pop() if len(metrics) == 1 else LOSS
    compared = [_compared(run, run.relative_to(path).as_posix(), _different(tables)[run]) for run in found]
    sign = -1 if METRICS.get(metric) else 1
    ranked = sorted(compared, key=lambda each: _rank(each.validation, metric, sign))
    return ComparedRuns(metric=metric, runs=tuple(ranked))


def _rank(validation: Mapping[str, float], metric: str, sign: int) -> tuple[float, float]:
    """Less is better: by the metric, of equal ones by the loss; without a score last."""
    worst = math.inf
    return sign * validation.get(metric, sign * worst), validation.get(LOSS, worst)


def runs_in(folder: Path) -> list[Path]:
    """The run folders in a folder, sorted by name."""
    return sorted(each.parent for each in folder.glob("*/metrics.jsonl"))


def run_table(found: ComparedRuns) -> tuple[list[str], list[list[str]]]:
    """The columns and rows of a table of runs: settings, steps, validation, test, time."""
    validation = [*dict.fromkeys([found.metric, *_names(each.validation for each in found.runs)])]
    test = _names(each.test for each in found.runs)
    columns = ["run", *found.settings, "steps"]
    columns += [f"validation {name}" for name in validation] + [f"test {name}" for name in test] + ["minutes"]
    rows = []
    for each in found.runs:
        shown = [_text(each.settings.get(key)) for key in found.settings]
        scores = [each.validation.get(name) for name in validation] + [each.test.get(name) for name in test]
        minutes = "" if each.seconds is None else f"{each.seconds / 60:.1f}"
        numbers = ["" if score is None else f"{score:.4g}" for score in scores]
        rows.append([each.run, *shown, str(each.steps), *numbers, minutes])
    return columns, rows


def _names(scores: Any) -> list[str]:
    return list(dict.fromkeys(name for each in scores for name in each))


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _compared(path: Path, name: str, settings: dict[str, Any]) -> ComparedRun:
    run = RunFolder(path)
    records = run.metrics()
    tests = [record["scores"] for record in records if record.get("kind") == "test"]
    return ComparedRun(
        run=name,
        settings=settings,
        steps=max((record.get("step") or 0 for record in records), default=0),
        validation=_validation(run),
        test=_numbers(tests[-1]) if tests else {},
        seconds=_seconds(path),
    )


def _validation(run: RunFolder) -> dict[str, float]:
    """The validation scores of the best model; none before the first validation."""
    try:
        return _numbers(best_validation(run))
    except UserError:
        return {}


def _numbers(scores: Mapping[str, Any]) -> dict[str, float]:
    """The scores that are numbers: what was not finite is null in the file."""
    return {name: float(value) for name, value in scores.items() if isinstance(value, int | float)}


def _seconds(run: Path) -> float | None:
    """The time until the newest intact checkpoint, with that of a second run; None without a checkpoint."""
    first, second = _seconds_of_one(run), _seconds_of_one(run / REFIT)
    return first if first is None or second is None else first + second


def _seconds_of_one(run: Path) -> float | None:
    for folder in sorted((run / "checkpoints").glob("step-*"), reverse=True):
        try:
            return float(Checkpoint.open(folder, ("state.json",)).read_json("state.json")["seconds"])
        except (UserError, KeyError):
            continue
    return None


def _recipe_of(run: Path) -> dict[str, Any]:
    """The recipe of a run with its --set; empty for a run of `fit`."""
    file = run / RESOLVED
    found = read_json(file).get("recipe", {}) if file.is_file() else {}
    return found if isinstance(found, dict) else {}


def _different(tables: Mapping[Path, Mapping[str, Any]]) -> dict[Path, dict[str, Any]]:
    """The settings of each run, without those that are equal in all runs."""
    keys = dict.fromkeys(key for table in tables.values() for key in table)
    varied = [key for key in keys if _varies([table.get(key) for table in tables.values()])]
    return {run: {key: table.get(key) for key in varied} for run, table in tables.items()}


def _varies(values: Sequence[Any]) -> bool:
    return any(value != values[0] for value in values)
