"""The runs of a folder side by side: the settings in which they differ, their scores and their time."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from regard.errors import FolderError, UserError
from regard.jobs.tasks import flattened, place
from regard.training.best import deciding_metrics
from regard.training.settings import METRICS, Metric, TrainingSettings
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
class Mean:
    """The mean of a score over runs, and its standard deviation (that of a sample)."""

    value: float
    deviation: float | None  # None: one run has the score
    runs: int

    def __str__(self) -> str:
        return f"{self.value:.4g}" + ("" if self.deviation is None else f" ± {self.deviation:.2g}")


@dataclass(frozen=True, kw_only=True)
class RunGroup:
    """Runs that differ in their seeds alone: their names, what they share, and the means of their scores."""

    runs: tuple[str, ...]
    settings: dict[str, Any]  # of those in which the runs of the folder differ, without the seeds
    validation: dict[str, Mean]
    test: dict[str, Mean]


@dataclass(frozen=True, kw_only=True)
class ComparedRuns:
    """The runs of a folder, the best first by the validation score `metric`; those without one are last.

    Of equal ones the one with the lower loss is before the other, and then by name.
    """

    metric: str
    runs: tuple[ComparedRun, ...]

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings in which the runs differ."""
        return tuple(dict.fromkeys(key for each in self.runs for key in each.settings))

    @property
    def ranked_by(self) -> str:
        """The scores by which the runs are ordered, as text: "bleu", or "bleu, then chrf" if some are low."""
        names = [name for each in self.runs for name in ranking_scores(each.validation, self.metric)]
        return ", then ".join(dict.fromkeys([self.metric, *names]))

    @property
    def groups(self) -> tuple[RunGroup, ...]:
        """The runs that differ in their seeds alone, two or more, together; the best first as for runs."""
        by_settings: dict[str, list[ComparedRun]] = {}
        for each in self.runs:
            by_settings.setdefault(repr(_without_seeds(each.settings)), []).append(each)
        groups = [_group(runs) for runs in by_settings.values() if len(runs) > 1]
        means = [{name: mean.value for name, mean in each.validation.items()} for each in groups]
        order = sorted(range(len(groups)), key=lambda i: _place(means[i], self.metric, groups[i].runs[0]))
        return tuple(groups[i] for i in order)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that `regard curves FOLDER --json` prints."""
        return {**asdict(self), "groups": [asdict(each) for each in self.groups]}


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
    tables = _recipes_of(found)
    metrics = {table.get("training.best_metric", TrainingSettings().best_metric) for table in tables.values()}
    metric = metrics.pop() if len(metrics) == 1 else LOSS
    compared = [_compared(run, run.relative_to(path).as_posix(), _different(tables)[run]) for run in found]
    ranked = sorted(compared, key=lambda each: _place(each.validation, metric, each.run))
    return ComparedRuns(metric=metric, runs=tuple(ranked))


def ranks_of(validation: Mapping[str, float], metric: str) -> dict[str, float | None]:
    """The rank of a run by these scores, and what decides between equal ones, the loss. Less is better.

    Runs are compared as the models within one are: below some BLEU by chrF++.
    """
    scores = ranking_scores(validation, metric)
    if scores and metric not in scores:  # such runs are equal by `metric`, and others are better
        return {"rank": 0.0, "second_rank": _rank(*next(iter(scores.items())))}
    rank = _rank(metric, scores[metric]) if scores else None
    return {"rank": rank, "second_rank": _finite(validation).get(LOSS)}


def ranking_scores(validation: Mapping[str, float], metric: str) -> dict[str, float]:
    """The score that ranks a run with these scores, by its name; empty if `metric` was not measured."""
    finite = _finite(validation)
    if metric not in finite:
        return {}
    values = [finite[metric]]
    names = deciding_metrics(cast(Metric, metric), values) if metric in METRICS else (metric,)
    known = [name for name in names if finite.get(name)] or [metric]
    return {known[0]: finite[known[0]]}


def _rank(metric: str, value: float) -> float:
    return -value if dict(METRICS).get(cast(Metric, metric), False) else value


def _finite(scores: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in scores.items() if math.isfinite(value)}


def _place(validation: Mapping[str, float], metric: str, name: str) -> tuple[float, float, str]:
    ranks = ranks_of(validation, metric)
    return place(ranks["rank"], ranks["second_rank"], name)


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


def group_table(found: ComparedRuns) -> tuple[list[str], list[list[str]]]:
    """The columns and rows of a table of means over seeds; no row if no two runs differ in seeds alone."""
    groups = found.groups
    validation = [*dict.fromkeys([found.metric, *_names(each.validation for each in groups)])]
    test, settings = _names(each.test for each in groups), _names(each.settings for each in groups)
    columns = [*settings, "runs", *(f"validation {name}" for name in validation)]
    columns += [f"test {name}" for name in test]
    rows = []
    for each in groups:
        means = [each.validation.get(name) for name in validation] + [each.test.get(name) for name in test]
        shown = [_text(each.settings.get(key)) for key in settings]
        rows.append([*shown, str(len(each.runs)), *("" if mean is None else str(mean) for mean in means)])
    return columns, rows


def _without_seeds(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings but seeds, and the name of a recipe, which often has the seed in it."""
    return {key: value for key, value in settings.items() if key.rpartition(".")[2] not in ("seed", "name")}


def _group(runs: Sequence[ComparedRun]) -> RunGroup:
    return RunGroup(
        runs=tuple(each.run for each in runs),
        settings=_without_seeds(runs[0].settings),
        validation=_means([each.validation for each in runs]),
        test=_means([each.test for each in runs]),
    )


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, Mean]:
    """The mean of each score over the runs that have it."""
    found = {}
    for name in _names(scores):
        values = [each[name] for each in scores if name in each]
        deviation = statistics.stdev(values) if len(values) > 1 else None
        found[name] = Mean(value=statistics.fmean(values), deviation=deviation, runs=len(values))
    return found


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


def names_of_runs(runs: Sequence[Path]) -> dict[str, Path]:
    """The runs by the settings in which they differ, `key=value`; by their folders if these are not enough.

    Raises:
        UserError: a run is named twice.
    """
    found = [each.resolve() for each in runs]
    for each in found:
        if found.count(each) > 1:
            raise UserError(f"{each.name} is named twice", "name each run once")
    settings = _different(_recipes_of(found))
    names = [", ".join(_settings_shown(settings[each])) for each in found]
    others = ([each.name for each in found], [f"{each.parent.name}/{each.name}" for each in found])
    for choice in (names, *others):
        if all(choice) and len(set(choice)) == len(choice):
            return dict(zip(choice, found, strict=True))
    return {str(each): each for each in found}


def _settings_shown(settings: Mapping[str, Any]) -> list[str]:
    """Each setting as `key=value`, with the section where two keys are the same; not the recipe's name."""
    last = [key.rpartition(".")[2] for key in settings]
    return [
        f"{short if last.count(short) == 1 else key}={_text(value)}"
        for (key, value), short in zip(settings.items(), last, strict=True)
        if value is not None and key != "name"
    ]


def _recipes_of(runs: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    return {run: dict(flattened(_recipe_of(run), ".")) for run in runs}


def _different(tables: Mapping[Path, Mapping[str, Any]]) -> dict[Path, dict[str, Any]]:
    """The settings of each run, without those that are equal in all runs."""
    keys = dict.fromkeys(key for table in tables.values() for key in table)
    varied = [key for key in keys if _varies([table.get(key) for table in tables.values()])]
    return {run: {key: table.get(key) for key in varied} for run, table in tables.items()}


def _varies(values: Sequence[Any]) -> bool:
    return any(value != values[0] for value in values)
