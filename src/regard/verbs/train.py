"""Train: a recipe becomes a run with checkpoints and a scored model; a stopped run resumes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from regard import console
from regard.distributed.distributed_model import DistributedModel, distribute
from regard.distributed.group import Group
from regard.distributed.heartbeat import heartbeat
from regard.distributed.rank import own_rank
from regard.distributed.workers import workers as started
from regard.errors import FolderError, Stopped
from regard.recipe import has_override
from regard.training.collapse import collapse_warning
from regard.training.pace import Update
from regard.training.products import matmul_precision
from regard.training.rate_warning import rate_warning
from regard.training.share_objective import ShareObjective
from regard.training.threads import unchanged_threads
from regard.training.trainer import Trainer
from regard.verbs.recipes import recipe_path
from regard.verbs.shared import limits
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.device import choose_device
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.settings import RESOLVED, load_recipe
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import Say, Task
from regard.verbs.training_run.changed_settings import MAX_STEPS
from regard.verbs.training_run.dry_run import try_recipe
from regard.verbs.training_run.final_scores import finish
from regard.verbs.training_run.initial_model import begin
from regard.verbs.training_run.locked_run import locked_run
from regard.verbs.training_run.names_of_process import refuse_names_of_this_process, refuse_unknown_names
from regard.verbs.training_run.process_agreement import refuse_another_step, refuse_too_many
from regard.verbs.training_run.product_choice import product_precision
from regard.verbs.training_run.recipe_data import refuse_missing_data, same_files
from regard.verbs.training_run.recorded_recipe import moved_files
from regard.verbs.training_run.refit import (
    copy_measured,
    publish,
    refit_recipe,
    refuse_collapsed,
    refuse_second_run,
    stopped_in_refit,
)
from regard.verbs.training_run.run_summary import early_stop, few_averaged, training_summary
from regard.verbs.training_run.slowdown import SlowdownWatch
from regard.verbs.training_run.stop_signal import stop_signal
from regard.verbs.training_run.teacher import load_teacher, training_objective
from regard.verbs.training_run.thread_choice import measured_threads, set_threads
from regard.weights.checkpoint import REFIT, RunFolder
from regard.weights.model_folder import model_files

# until a file server releases the lock of a machine that it has lost: 90 s is the usual lease of NFS
LOST_LOCK_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """The result of a training run: its folder, its best model's folder, its updates and test scores.

    A dry run has no folders. If several processes train, only the first returns the model and its scores.
    """

    run: Path | None
    model: Path | None
    steps: int
    metrics: dict[str, float]


@checked
@keyword_fields
def train(
    recipe: str | Path,
    *,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    init: str | Path | None = None,
    resume: bool = False,
    dry_run: bool = False,
    runtime: Runtime = DEFAULT_RUNTIME,
    workers: int = 1,
    quiet: bool = False,
    on_report: Callable[[dict[str, Any]], None] | None = None,
) -> TrainResult:
    """Train a recipe, or resume a run.

    A run folder with the same recipe is resumed, one with another recipe is refused. Some settings may
    differ, such as `training.max_steps`, which makes the run longer or shorter, and `validate_every`
    (docs/training.md). A folder in which no training has begun, because its recipe had a mistake, takes the
    new recipe.

    Args:
        recipe: a TOML file, the name of a recipe that comes with regard, or a run folder to resume.
        out: the run folder; None is `runs/NAME`.
        overrides: settings `section.key=value` that replace those of the recipe.
        init: a pretrained model to start from, a model or run folder; None is `model.init` of the recipe.
        resume: raise an error if there is no run to resume.
        dry_run: read all data, build the model, do some updates, and print the time and memory of the run;
            keep nothing.
        workers: processes of this machine that train together. Two processes of one thread are often faster
            than one of two. Under torchrun leave it 1: torchrun starts the processes.
        quiet: print warnings only: no notes, no progress, no scores.
        on_report: called with each record of `metrics.jsonl` when it is written: records of `kind` "train"
            every `training.report_every` updates, "validation", "collapse" and others; with `training.refit`
            those of the second run follow, from step 1 on. An exception in it ends the training. If several
            processes train, only the first calls it.

    Raises:
        UserError: the recipe, the data or the folder cannot be used.
        RunError: training failed.
        Interrupted: a signal stopped it.
    """
    if runtime.threads is None and workers > 1:
        runtime = replace(runtime, threads=max(1, limits.cores() // workers))
    limits.refuse_too_many_threads(workers, runtime.threads or 1)
    rank = own_rank()
    if dry_run:
        return _dry_run(
            recipe,
            overrides,
            init,
            runtime,
            max(workers, rank.size),
            rank.rank,
            quiet,
        )
    if workers > 1:
        refuse_names_of_this_process(_load(recipe_path(recipe), overrides, init).table, workers)
    command = _command(recipe, out, overrides, init, runtime)
    with unchanged_threads(), started(rank, workers, command) as group:
        path = recipe_path(recipe)
        source = _load(path, overrides, init)
        refuse_missing_data(source.table)
        chosen = rank.device(choose_device(runtime))
        default = path if path.is_dir() else Path("runs") / source.recipe.name
        run_path = Path(out) if out else default
        refuse_too_many(source.recipe, group.size)
        refuse_second_run(run_path)
        if resume and not (run_path / RESOLVED).exists():
            raise FolderError(f"{run_path}: there is no run to resume", "leave out --resume to start one")
        say = console.note if group.is_first and not quiet else _ignore
        wait = LOST_LOCK_SECONDS if rank.is_restarted else 0.0
        keeps_length = not (path.is_dir() or has_override(overrides, MAX_STEPS))
        with locked_run(run_path, source, group, say, wait, keeps_length=keeps_length) as (run, source):
            process = _Process(chosen, group, say, quiet, on_report, runtime.threads, wait)
            with moved_files(run, source):
                return _train(source, run, process)


def _dry_run(
    recipe: str | Path,
    overrides: Sequence[str],
    init: str | Path | None,
    runtime: Runtime,
    processes: int,
    rank: int,
    quiet: bool,
) -> TrainResult:
    """The dry run, by the first process alone."""
    metrics: dict[str, float] = {}
    if rank == 0:
        source = _load(recipe_path(recipe), overrides, init)
        refuse_too_many(source.recipe, processes)
        say = _ignore if quiet else console.note
        with unchanged_threads():
            metrics = try_recipe(source, choose_device(runtime), threads=runtime.threads, say=say)
    return TrainResult(run=None, model=None, steps=1, metrics=metrics)


def _command(
    recipe: str | Path,
    out: str | Path | None,
    overrides: Sequence[str],
    init: str | Path | None,
    runtime: Runtime,
) -> list[str]:
    """The arguments of Python for another worker of this run."""
    sets = [argument for override in overrides for argument in ("--set", override)]
    start = [] if init is None else ["--init", str(init)]
    where = [] if out is None else ["--out", str(out)]
    count = [] if runtime.threads is None else ["--threads", str(runtime.threads)]
    return ["-m", "regard", "train", str(recipe), *where, *sets, *start, "--device", runtime.device, *count]


def _load(path: Path, overrides: Sequence[str], init: str | Path | None) -> RecipeFile:
    """The recipe of a run folder or of a TOML file, which names nothing that is unknown."""
    source = load_recipe(path, overrides, init)
    refuse_unknown_names(source.recipe.training)
    return source


@dataclass(frozen=True)
class _Process:
    """This process of a training run, with what the user asked of all of its parts."""

    device: torch.device
    group: Group
    say: Say
    quiet: bool
    on_report: Callable[[dict[str, Any]], None] | None
    threads: int | None
    lock_wait: float  # seconds to wait for a process that has a run folder


@dataclass(frozen=True)
class _Trained:
    """What is left of a training run: its data, the model in this process, its number of updates."""

    task: Task
    distributed: DistributedModel
    steps: int
    is_collapsed: bool  # after the last retry


def _train(source: RecipeFile, run: RunFolder, process: _Process) -> TrainResult:
    trained = _train_once(source, run, process)
    if source.recipe.training.refit:
        del trained  # before there is a second model
        trained = _refit(source, run, process)
    metrics = finish(source, trained.task, run, trained.distributed, process.device, quiet=process.quiet)
    best = run.path / "best" if process.group.is_first else None
    return TrainResult(run=run.path, model=best, steps=trained.steps, metrics=metrics)


def _refit(source: RecipeFile, run: RunFolder, process: _Process) -> _Trained:
    """The second run, on all examples; its model becomes that of the first."""
    again, path = refit_recipe(source), run.path / REFIT
    process.say("training.refit: training once more from the start, on the validation data too")
    with locked_run(path, again, process.group, process.say, process.lock_wait) as (second, again):
        if process.group.is_first:
            copy_measured(run, second)
        process.group.barrier()
        try:
            trained = _train_once(again, second, process)
        except Stopped as stopped:
            raise stopped_in_refit(stopped, run) from None
        refuse_collapsed(run, trained.is_collapsed)
        if process.group.is_first:
            publish(run, second)
        process.group.barrier()
    return trained


def _train_once(source: RecipeFile, run: RunFolder, process: _Process) -> _Trained:
    recipe, group, device, say = source.recipe, process.group, process.device, process.say
    checkpoint = run.latest()
    teacher = load_teacher(source, run, device, writes=group.is_first, say=say)
    for warning in same_files(source.table) if group.is_first else ():
        console.warn(warning)
    task, model = begin(
        source, run, device, say=say, group=group, resumes=checkpoint is not None, teacher=teacher
    )
    objective = ShareObjective(training_objective(task, recipe.training, teacher))
    loader = task.loader(group)
    refuse_another_step(checkpoint, run, group)
    before = checkpoint.read_json("state.json") if checkpoint else None
    if before:
        say(f"resuming from step {before['step']:,}")
        if group.is_first:
            _warn_of_other_hardware(before, device, group)
    entropy = None
    if group.is_first:
        say(training_summary(recipe.training, loader, before, has_validation=task.has_validation))
        is_finished = before is not None and before["step"] >= recipe.training.max_steps
        if not is_finished and (warning := rate_warning(recipe.training, d_model=task.config.d_model)):
            console.warn(warning)
        entropy = task.target_entropy(loader)
    distributed = distribute(model, recipe.distributed, group, device)
    with ExitStack() as stack:
        stop = stack.enter_context(stop_signal(say))
        callbacks: _Callbacks = _ignore, _ignore
        if group.is_first:
            callbacks = stack.enter_context(_display(recipe, task.unit, before, process))
        trainer = Trainer(
            model,
            objective,
            loader,
            recipe.training,
            run,
            model_files(task.config, task.labels, task.files, source.text),
            validate=task.validate if task.has_validation else None,
            report=callbacks[0],
            update=callbacks[1],
            stop=stop,
            distributed=distributed,
            entropy=entropy,
            entropy_is_sign=not recipe.training.loss,
        )
        stack.enter_context(heartbeat(group, console.warn))
        with matmul_precision(product_precision(source, run, task.config.d_model, device, group, say)):
            if process.threads is None and group.size == 1:
                set_threads(run, lambda: measured_threads(model, objective, loader, recipe.training), say)
            state = trainer.train()
    reason = early_stop(recipe.training, vars(state))
    if reason and state.step > (before["step"] if before else 0):  # else it was printed above
        say(f"training: {reason}")
    return _Trained(task, distributed, state.step, state.watch.is_over)


def _warn_of_other_hardware(state: Mapping[str, Any], device: torch.device, group: Group) -> None:
    before = str(state.get("device"))
    if before.partition(":")[0] != device.type:
        console.warn(f"device: {before} before, {device} now; results will differ in bits")
    if (processes := len(state.get("random", ()))) != group.size:
        console.warn(f"processes: {processes} before, {group.size} now; results will differ in bits")


_Callbacks = tuple[Callable[[dict[str, Any]], None], Callable[[Update], None]]  # for reports, for updates


@contextmanager
def _display(
    recipe: Recipe,
    unit: str,
    before: Mapping[str, Any] | None,
    process: _Process,
) -> Iterator[_Callbacks]:
    """Callbacks that show reports and updates: a progress bar or lines; a quiet process: warnings."""
    total, done = recipe.training.max_steps, before["step"] if before else 0
    with nullcontext() if process.quiet else console.Progress(total, done=done, unit=unit) as progress:

        def report(record: dict[str, Any]) -> None:
            if warning := few_averaged(record, recipe.training):
                console.warn(warning)
            if record["kind"] == "collapse":
                console.warn(collapse_warning(record))
            elif progress is not None:
                progress.report(record)
            if process.on_report is not None:
                process.on_report(dict(record))

        watch = SlowdownWatch()

        def updated(update: Update) -> None:
            if warning := watch.warning(update):
                console.warn(warning)
            if progress is not None:
                progress.update(update)

        yield report, updated


def _ignore(_: object) -> None:
    """A callback that does nothing."""
