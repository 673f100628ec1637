"""Sweeps: a recipe trained with each combination of some settings, by one process or by several."""

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from regard import console
from regard.errors import DataError, FolderError, RecipeError, RegardError, RunError, UserError
from regard.jobs.part_worker import JobOrder, OpenedTasks
from regard.jobs.storage import Storage
from regard.jobs.tasks import (
    TaskPlan,
    TaskProgress,
    TaskRecord,
    planned_tasks,
    run_task,
    task_progress,
)
from regard.recipe import apply_overrides
from regard.training.settings import measured_name
from regard.verbs.engine_jobs import LOCAL, as_keywords, everywhere, refuse_unknown_engine, run_tasks
from regard.verbs.jobs import shard_of
from regard.verbs.recipes import recipe_path
from regard.verbs.run_ranking import NOT_COMPARABLE, comparable_metric, ranking_scores, ranks_of
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.settings import load_recipe
from regard.verbs.shared.text_options import TaskOptions
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.train import LOST_LOCK_SECONDS, train
from regard.verbs.training_run.final_scores import best_validation
from regard.verbs.training_run.model_check import refuse_impossible_model
from regard.verbs.training_run.names_of_process import refuse_unknown_names
from regard.verbs.training_run.recipe_data import refuse_missing_data
from regard.verbs.training_run.setting_combinations import setting_combinations, written_values
from regard.weights.checkpoint import RunFolder

ORDERS = "regard.verbs.sweep:open_order"
EVERY_TASK = TaskOptions()


@python_call
def sweep(
    recipe: str | Path,
    values: Sequence[str] | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    init: str | Path | None = None,
    tasks: TaskOptions = EVERY_TASK,
    runtime: Runtime = DEFAULT_RUNTIME,
    workers: int = 1,
    quiet: bool = False,
    done: Callable[[TaskRecord], None] | None = None,
) -> TaskProgress:
    """Train a recipe with each combination of the values of some settings, each as `train` does.

    A run that was stopped is resumed, one that is done is left out. A run that fails is reported, and the
    others are done. The same folder takes more values of the same settings.

    Args:
        recipe: a TOML file, or the name of a recipe that comes with regard.
        values: a list of values for each setting, as in `{"training.seed": [1, 2]}`; or for each a text
            `section.key=value,value`, in which a value is what `overrides` have.
        out: the folder of the run folders; None is `runs/NAME-sweep`.
        overrides: settings `section.key=value` of all runs.
        init: a pretrained model to start from, a model or run folder.
        workers: processes of a machine that train each run together.
        quiet: print warnings only.
        done: is called after each run.

    Raises:
        UserError: a setting, or the recipe with one of the combinations, cannot be used; or the folder
            belongs to another sweep. RunError: runs have failed. Interrupted: a signal stopped one.
    """
    refuse_unknown_engine(tasks)
    _refuse_elsewhere(out)
    if workers > 1 and tasks.on not in (None, LOCAL):
        raise UserError("workers are for one machine", "give --threads, and --processes for several runs")
    mine = shard_of(tasks.shard or "1/1")
    runs = _Runs(
        recipe,
        written_values(values),
        out,
        overrides=overrides,
        init=init,
        workers=workers,
        quiet=quiet,
        runtime=runtime,
    )
    storage = Storage(str(runs.folder))
    _refuse_other_settings(planned_tasks(storage), runs.plan, runs.folder)
    is_here = tasks.on in (None, LOCAL)
    plan = runs.plan.agreed(storage, adds=is_here)
    if is_here:
        chosen = [name for name in plan.shard(*mine) if name in runs.plan.tasks]
        failed = _trained_here(runs, storage, chosen, done)
    else:
        chosen = list(plan.tasks)
        failed = _trained_on_engine(runs, chosen, tasks, done)
    if failed:
        name, reason = next(iter(failed.items()))
        raise RunError(
            f"{len(failed)} of {len(chosen)} runs failed, the first is {name}: {reason}",
            f"the same command does them again; regard jobs status {runs.folder} shows the others",
        )
    progress = task_progress(storage)
    assert progress is not None
    return progress


class _Runs:
    """The runs of a sweep, whose recipes have all been read."""

    @keyword_fields
    def __init__(
        self,
        recipe: str | Path,
        values: Sequence[str],
        out: str | Path | None,
        *,
        overrides: Sequence[str] = (),
        init: str | Path | None = None,
        runtime: Runtime = DEFAULT_RUNTIME,
        workers: int = 1,
        quiet: bool = False,
    ) -> None:
        self.path, self._sets = recipe_path(recipe), setting_combinations(values)
        _refuse_both(overrides, values)
        overrides = [*overrides, *_without_second_runs(self.path, overrides, values)]
        self._loaded = {
            name: load_recipe(self.path, [*overrides, *sets], init) for name, sets in self._sets.items()
        }
        _refuse_incomparable(self._loaded)
        _refuse_unusable(self._loaded)
        self._same_tokens = not any(each.strip().startswith("tokenizer.") for each in values)
        base = load_recipe(self.path, overrides, init)
        self.folder = Path(out) if out else Path("runs") / f"{base.recipe.name}-sweep"
        self.plan = _plan(base, self._sets)
        self.overrides, self.runtime, self.waits = overrides, runtime, 0.0
        self._settings: dict[str, Any] = {"init": init, "workers": workers, "quiet": quiet}
        recipe_name = everywhere(str(recipe)) if os.path.exists(recipe) else str(recipe)
        self.message = as_keywords(  # of the same runs on another machine
            {
                **self._settings, "recipe": recipe_name, "values": list(values), "out": self.folder,
                "overrides": list(overrides), "runtime": replace(runtime, threads=runtime.threads or 1),
                "init": everywhere(str(init)) if init is not None and os.path.exists(init) else init,
            }
        )  # fmt: skip

    def train(self, name: str) -> TaskRecord:
        """Train one."""
        began = time.monotonic()
        sets = [*self.overrides, *self._sets[name]]
        _wait_for_lock(self.folder / name, self.waits)
        try:
            result = train(
                self.path, out=self.folder / name, overrides=sets, runtime=self.runtime, **self._settings
            )
        except (MemoryError, torch.OutOfMemoryError) as error:
            hint = "a smaller model or batches.batch_tokens needs less"
            raise RunError(f"out of memory: {error}", hint) from error
        validation = best_validation(RunFolder(self.folder / name))
        recipe: Any = self._loaded[name].recipe
        metric, kind = recipe.training.best_metric, recipe.task.kind
        by = comparable_metric(metric, kind, [validation], same_tokens=self._same_tokens)
        if by is None:
            console.warn(f"{NOT_COMPARABLE}: the runs are in the order of their names")
        scores, ranks = _scores(validation, result.metrics, metric, by), ranks_of(validation, by)
        seconds = round(time.monotonic() - began, 3)
        found = {"run": name, "steps": result.steps, "validation": _finite(validation)}
        return TaskRecord(task=name, seconds=seconds, scores=scores, result=found, **ranks)


def _trained_here(
    runs: _Runs, storage: Storage, chosen: Sequence[str], done: Callable[[TaskRecord], None] | None
) -> dict[str, str]:
    """Train some runs; returns why runs failed, by name."""
    failed: dict[str, str] = {}
    for name in chosen:
        try:
            record = run_task(storage, name, lambda name=name: runs.train(name))
        except RegardError as error:
            failed[name] = error.message
            console.warn(f"{name}: {error.message} ({error.hint})")
        else:
            if record is not None and done is not None:
                done(record)
    return failed


def _trained_on_engine(
    runs: _Runs,
    names: Sequence[str],
    tasks: TaskOptions,
    done: Callable[[TaskRecord], None] | None,
) -> dict[str, str]:
    """Train all runs by the processes of a cluster; returns why runs failed, by name."""
    order = JobOrder(opens=ORDERS, settings=runs.message, output=everywhere(str(runs.folder)))
    reasons = run_tasks(order, tasks, runs.runtime, names.__getitem__, done)
    for name, reason in reasons.items():
        console.warn(f"{name}: {reason}")
    return reasons


def open_order(settings: Mapping[str, Any], plans: bool) -> OpenedTasks:
    """The sweep of a message, in a process of an engine."""
    runs = _Runs(**settings)
    runs.waits = LOST_LOCK_SECONDS  # for the machine from which this process has a run
    return OpenedTasks(plan=runs.plan, do=runs.train)


def _refuse_elsewhere(out: str | Path | None) -> None:
    """Raise a UserError under torchrun, and for run folders that are not on a disk."""
    if "RANK" in os.environ:
        raise UserError(
            "torchrun trains one run, not a sweep", "give --workers, or --shard I/N in each process"
        )
    if out is not None and "://" in str(out):
        raise UserError(f"{out} is an address, but runs are folders of a disk", "give a path with --out")


def _plan(base: RecipeFile, runs: Mapping[str, Sequence[str]]) -> TaskPlan:
    return TaskPlan(
        command="train",
        version=version("regard"),
        settings={"recipe": json.loads(json.dumps(base.table, default=str))},
        tasks={name: {"set": list(sets)} for name, sets in runs.items()},
    )


def _without_second_runs(path: Path, overrides: Sequence[str], values: Sequence[str]) -> list[str]:
    """The override that leaves out second runs (`training.refit`): validation scores are of the first.

    Raises:
        RecipeError: the runs would not be validated.
    """
    recipe = load_recipe(path, overrides).recipe
    if getattr(getattr(recipe, "data", None), "train_on_valid", False):
        raise RecipeError(
            "data.train_on_valid is set, but a sweep compares validation scores", "leave it out for the sweep"
        )
    if not recipe.training.refit or any(each.startswith("training.refit=") for each in values):
        return []
    console.note("the runs of a sweep have no second run (training.refit): train the best one again for it")
    return ["training.refit=false"]


def _refuse_both(overrides: Sequence[str], values: Sequence[str]) -> None:
    fixed, swept = ({each.partition("=")[0].strip() for each in these} for these in (overrides, values))
    for key in sorted(fixed & swept):
        raise RecipeError(f"{key} is in --set and in --sweep", "leave one of them out")


def _refuse_incomparable(loaded: Mapping[str, RecipeFile]) -> None:
    """Raise a RecipeError if two runs are the same, or are not judged by one metric."""
    seen: dict[str, str] = {}
    for name, file in loaded.items():
        table = json.dumps(file.table, default=str, sort_keys=True)
        if table in seen:
            raise RecipeError(f"--sweep: {seen[table]} and {name} are the same run", "leave one of them out")
        seen[table] = name
    metrics = sorted({file.recipe.training.best_metric for file in loaded.values()})
    if len(metrics) > 1:
        raise RecipeError(
            f"--sweep: runs would be ranked by {' and by '.join(metrics)}, which do not compare",
            f"give one for all: --set training.best_metric={metrics[0]}",
        )


def _refuse_unusable(loaded: Mapping[str, RecipeFile]) -> None:
    """Raise a UserError for a run whose model or data cannot be used, before one is trained."""
    checked: set[str] = set()  # models: most runs differ in others of their settings
    for name, file in loaded.items():
        training = file.recipe.training
        model = repr((file.table.get("task"), file.recipe.model, training.freeze, training.adapter))
        try:
            refuse_unknown_names(file.recipe.training)
            refuse_missing_data(file.table)
            if model not in checked:
                refuse_impossible_model(file.recipe)
            checked.add(model)
        except UserError as error:
            error.message = f"--sweep: {name}: {error.message}"
            error.args = (error.message,)
            raise


def _refuse_other_settings(there: Mapping[str, Mapping[str, Any]], plan: TaskPlan, folder: Path) -> None:
    """Raise a DataError if the folder has a sweep of other settings than those of the plan."""
    names = [
        sorted({each.partition("=")[0] for task in tasks.values() for each in task.get("set", ())})
        for tasks in (there, plan.tasks)
    ]
    if there and names[0] != names[1]:
        old, new = (", ".join(each) for each in names)
        raise DataError(
            f"{folder} has a sweep of {old or 'other tasks'}, and this one is of {new}",
            "choose another folder: --out DIR",
        )
    known = {repr(apply_overrides({}, sorted(task.get("set", ())))): name for name, task in there.items()}
    for name, task in plan.tasks.items():
        before = known.get(repr(apply_overrides({}, sorted(task["set"]))), name)
        if before != name:
            raise DataError(
                f"{folder} has the run {name} already, as {before}",
                "give the settings in the order and the spelling of the first sweep",
            )


def _wait_for_lock(folder: Path, seconds: float) -> None:
    """Wait until a lost machine's lock of a run folder is released, so long at most."""
    until = time.monotonic() + seconds
    while folder.is_dir() and time.monotonic() < until:
        with suppress(FolderError), RunFolder(folder).lock():
            return
        time.sleep(1)


def _scores(
    validation: Mapping[str, float], test: Mapping[str, float], metric: str, ranks_by: str | None
) -> dict[str, float | None]:
    """What ranks a run, what its best model was chosen by, and the test scores."""
    finite = _finite(validation)
    ranking = [] if ranks_by is None else [measured_name(ranks_by), *ranking_scores(validation, ranks_by)]
    scores = {
        f"validation {name}": finite.get(name) for name in dict.fromkeys([*ranking, measured_name(metric)])
    }
    if not test.keys() <= validation.keys():  # else there were no test data
        scores |= {f"test {each}": score for each, score in _finite(test).items()}
    return scores


def _finite(scores: Mapping[str, Any]) -> dict[str, float | None]:
    """The numbers; None for those that JSON does not have."""
    return {
        name: value if math.isfinite(value) else None
        for name, value in scores.items()
        if isinstance(value, int | float)
    }
