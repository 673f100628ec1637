"""The runs of a folder side by side: the settings in which they differ, their scores and their time."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from regard.errors import FolderError, UserError
from regard.jobs.tasks import flattened, place
from regard.training.settings import TrainingSettings, measured_name
from regard.verbs.run_ranking import (
    DEFAULT_KIND,
    LOSS,
    NOT_COMPARABLE,
    comparable_metric,
    ranking_scores,
    ranks_of,
)
from regard.verbs.shared.arguments import checked
from regard.verbs.training_run.final_scores import best_validation
from regard.weights.checkpoint import REFIT, RESOLVED, Checkpoint, RunFolder
from regard.weights.folder import read_json

METRICS = "metrics.jsonl"
FIT = "fit"  # the task of a run that has no recipe
TOKENIZER_FILES = ("target_tokenizer.json", "tokenizer.json")


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
    """Runs that differ in their seeds alone, each once: their names, what they share, mean scores."""

    runs: tuple[str, ...]
    settings: dict[str, Any]  # of those in which the runs of the folder differ, without the seeds
    validation: dict[str, Mean]
    test: dict[str, Mean]


@dataclass(frozen=True, kw_only=True)
class ComparedRuns:
    """The runs of a task in a folder, the best first by the validation score `metric`.

    Those without one are last. Of equal ones the one with the lower loss is before the other, and then by
    name. Where no score compares the runs, as a loss per token of different tokenisers, `metric` is None and
    they are ordered by name.
    """

    task: str  # the kind in their recipes; FIT: they have none
    metric: str | None
    runs: tuple[ComparedRun, ...]

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings in which the runs differ."""
        return tuple(dict.fromkeys(key for each in self.runs for key in each.settings))

    @property
    def order(self) -> str:
        """The order of the runs in words: "the best first, by validation bleu, then chrf"."""
        if self.metric is None:
            return f"by name: {NOT_COMPARABLE}"
        names = [name for each in self.runs for name in ranking_scores(each.validation, self.metric)]
        distinct = dict.fromkeys([measured_name(self.metric), *names])
        return f"the best first, by validation {', then '.join(distinct)}"

    @property
    def groups(self) -> tuple[RunGroup, ...]:
        """The runs that differ in their seeds alone, two or more, together; the best first as for runs."""
        by_settings: dict[str, dict[str, ComparedRun]] = {}
        for each in self.runs:
            same = by_settings.setdefault(repr(_without_seeds(each.settings)), {})
            same.setdefault(repr(_seeds(each.settings)), each)  # a copy of a run is no other run
        groups = [_group([*runs.values()]) for runs in by_settings.values() if len(runs) > 1]
        means = [{name: mean.value for name, mean in each.validation.items()} for each in groups]
        order = sorted(range(len(groups)), key=lambda i: _place(means[i], self.metric, groups[i].runs[0]))
        return tuple(groups[i] for i in order)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that `regard curves FOLDER --json` prints."""
        return {**asdict(self), "groups": [asdict(each) for each in self.groups]}


@checked
def compare_runs(folder: str | Path, *, task: str | None = None) -> ComparedRuns:
    """Compare the runs in a folder, such as those of a sweep: what differs, and which is the best.

    The best is by the score that selects the best model in all of the runs (`training.best_metric`), or by
    the validation loss if they have different ones. A loss per token depends on the tokeniser: language
    models are compared by bits per character, translations of different tokenisers by BLEU.

    Args:
        folder: the folder of the run folders, such as `--out` of a sweep.
        task: the kind of task, such as "tagging", if the folder has runs of several.

    Raises:
        FolderError: it has no runs, or no runs of this task.
        UserError: it has runs of several tasks, and `task` is not given.
    """
    by_task = compare_by_task(folder)
    shown = ", ".join(f"{name} ({len(found.runs)})" for name, found in by_task.items())
    if task is None and len(by_task) > 1:
        raise UserError(f"{folder} has runs of several tasks: {shown}", "name one of them with task")
    chosen = next(iter(by_task)) if task is None else task
    if chosen not in by_task:
        raise FolderError(f"{folder} has no runs of {chosen!r}", f"it has {shown}")
    return by_task[chosen]


def compare_by_task(*folders: str | Path) -> dict[str, ComparedRuns]:
    """Runs, or those in a folder, by the kind of their task, which alone compare; see `compare_runs`.

    Of several folders each is a run or has runs, and a run is called by its path.

    Raises:
        FolderError: one has no runs.
    """
    paths = [Path(each).expanduser() for each in folders]
    found = dict.fromkeys(run for path in paths for run in _one_or_more(path))
    base = paths[0] if len(paths) == 1 else None
    by_task: dict[str, dict[Path, dict[str, Any]]] = {}
    for run, table in _recipes_of([*found]).items():
        by_task.setdefault(_task_of(table), {})[run] = table
    return {task: _of_one_task(task, base, tables) for task, tables in sorted(by_task.items())}


def _one_or_more(folder: Path) -> list[Path]:
    """The runs that a folder has, or the one that it is."""
    if found := [folder] if is_run(folder) else runs_in(folder):
        return found
    raise FolderError(f"{folder} has no runs", "name the folder of a sweep, or one with run folders in it")


def is_run(folder: Path) -> bool:
    """True for a folder with measurements of a run."""
    return (folder / METRICS).is_file()


def _task_of(recipe: Mapping[str, Any]) -> str:
    return str(recipe.get("task.kind", DEFAULT_KIND)) if recipe else FIT


def _of_one_task(task: str, base: Path | None, tables: Mapping[Path, dict[str, Any]]) -> ComparedRuns:
    settings = _different(tables)
    names = {
        run: str(run) if base is None or run == base else run.relative_to(base).as_posix() for run in tables
    }
    compared = [_compared(run, names[run], settings[run]) for run in tables]
    metrics = {table.get("training.best_metric", TrainingSettings().best_metric) for table in tables.values()}
    metric = comparable_metric(
        metrics.pop() if len(metrics) == 1 else LOSS,
        task,
        [each.validation for each in compared if each.validation],
        same_tokens=len({each for run in tables if (each := _tokenizer_digest(run))}) < 2,
    )
    ranked = sorted(compared, key=lambda each: _place(each.validation, metric, each.run))
    return ComparedRuns(task=task, metric=metric, runs=tuple(ranked))


def _tokenizer_digest(run: Path) -> str | None:
    """The digest of the tokeniser of what the best model predicts; None without a model or a tokeniser."""
    try:
        best = RunFolder(run).best(TOKENIZER_FILES)
    except UserError:
        return None
    files = best.manifest["files"] if best else {}
    return next((files[name]["sha256"] for name in TOKENIZER_FILES if name in files), None)


def _place(validation: Mapping[str, float], metric: str | None, name: str) -> tuple[float, float, str]:
    ranks = ranks_of(validation, metric)
    return place(ranks["rank"], ranks["second_rank"], name)


def runs_in(folder: Path) -> list[Path]:
    """The run folders in a folder, sorted by name."""
    return sorted(each.parent for each in folder.glob(f"*/{METRICS}"))


def run_table(found: ComparedRuns) -> tuple[list[str], list[list[str]]]:
    """The columns and rows of a table of runs: settings, steps, validation, test, time."""
    validation = [*dict.fromkeys([*_first(found), *_names(each.validation for each in found.runs)])]
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
    validation = [*dict.fromkeys([*_first(found), *_names(each.validation for each in groups)])]
    test, settings = _names(each.test for each in groups), _names(each.settings for each in groups)
    columns = [*settings, "runs", *(f"validation {name}" for name in validation)]
    columns += [f"test {name}" for name in test]
    rows = []
    for each in groups:
        means = [each.validation.get(name) for name in validation] + [each.test.get(name) for name in test]
        shown = [_text(each.settings.get(key)) for key in settings]
        rows.append([*shown, str(len(each.runs)), *("" if mean is None else str(mean) for mean in means)])
    return columns, rows


def _first(found: ComparedRuns) -> list[str]:
    return [] if found.metric is None else [measured_name(found.metric)]


def _without_seeds(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings but seeds, and the name of a recipe, which often has the seed in it."""
    return {key: value for key, value in settings.items() if key.rpartition(".")[2] not in ("seed", "name")}


def _seeds(settings: Mapping[str, Any]) -> dict[str, Any]:
    default = {"training.seed": TrainingSettings.seed}
    return {
        key: default.get(key) if value is None else value
        for key, value in settings.items()
        if key.rpartition(".")[2] == "seed"
    }


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
