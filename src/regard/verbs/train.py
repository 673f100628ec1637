"""Train a recipe, or go on with a run: raw text in, a scored model folder out."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard import console
from regard.distributed.group import Group
from regard.distributed.workers import workers as started
from regard.errors import FolderError
from regard.recipe import differences
from regard.training.trainer import Trainer
from regard.verbs.device import choose_device
from regard.verbs.dry_run import try_recipe
from regard.verbs.finish import finish
from regard.verbs.recipes import recipe_path
from regard.verbs.settings import RESOLVED, load_recipe, load_run
from regard.verbs.start import begin
from regard.verbs.tasks.recipe import RecipeFile
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import model_files
from regard.weights.strict_json import read_json


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """A finished run: its folder and its best model's (None of a dry run), and its last scores."""

    run: Path | None
    model: Path | None
    steps: int
    metrics: dict[str, float]


def train(
    recipe: str | Path,
    *,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    init: str | Path | None = None,
    resume: bool = False,
    dry_run: bool = False,
    device: str = "auto",
    threads: int | None = None,
    workers: int = 1,
) -> TrainResult:
    """Train `recipe`: a TOML file, the name of one that comes with regard, or a run folder.

    A run folder that holds the same recipe is gone on with; one that holds another is refused.

    Args:
        out: the run folder; `runs/NAME` without.
        overrides: `section.key=value` each.
        init: a trained model to start from, a model or run folder; `model.init` of the recipe without.
        resume: refuse to start from nothing.
        dry_run: read everything, build everything, do one update, keep nothing.
        threads: of each worker; torch's own choice without.
        workers: processes of this machine that share each batch. On a CPU two of one thread are
            faster than one of two.

    Raises:
        UserError: recipe, data or folder do not do; RunError: training failed; Interrupted: by a signal.
    """
    recipe = recipe_path(recipe)
    source = _load(recipe, overrides, init)
    if threads is None and workers > 1:
        threads = max(1, (os.cpu_count() or 1) // workers)
    chosen = choose_device(device, threads)
    if dry_run:
        return TrainResult(run=None, model=None, steps=1, metrics=try_recipe(source, chosen))
    path = Path(out) if out else _default_folder(recipe, source)
    if resume and not (path / RESOLVED).exists():
        raise FolderError(f"{path}: no run to resume", "leave out --resume to start one")
    command = _command(recipe, path, overrides, init, device, threads)
    with started(workers, command) as group, _claimed(path, source, group) as run:
        return _train(source, run, chosen, group)


def _command(
    recipe: str | Path,
    path: Path,
    overrides: Sequence[str],
    init: str | Path | None,
    device: str,
    threads: int | None,
) -> list[str]:
    """What another worker of this run is called with."""
    sets = [argument for override in overrides for argument in ("--set", override)]
    start = [] if init is None else ["--init", str(init)]
    count = [] if threads is None else ["--threads", str(threads)]
    others = [*sets, *start, "--device", device, *count]
    return ["-m", "regard", "train", str(recipe), "--out", str(path), *others]


def _load(path: Path, overrides: Sequence[str], init: str | Path | None) -> RecipeFile:
    load = load_run if (path / RESOLVED).is_file() else load_recipe
    return load(path, overrides, init)


def _default_folder(path: Path, source: RecipeFile) -> Path:
    return path if path.is_dir() else Path("runs") / source.recipe.name


@contextmanager
def _claimed(path: Path, source: RecipeFile, group: Group) -> Iterator[RunFolder]:
    """The run folder, locked by the first process; the others come in when it holds the recipe."""
    run = RunFolder(path)
    with ExitStack() as stack:
        if group.is_first:
            stack.enter_context(run.lock())
            _write_recipe(run, source)
            for warning in [*run.sweep(), *run.environment_warnings()]:
                console.warn(warning)
        group.wait()
        yield run


def _write_recipe(run: RunFolder, source: RecipeFile) -> None:
    """Write the recipe into a new run folder, or see that the old one holds the same."""
    resolved = run.path / RESOLVED
    if not resolved.exists():
        run.write_text("recipe.toml", source.text)
        saved = {"recipe": source.table, "base": str(source.base)}
        run.write_text(RESOLVED, json.dumps(saved, indent=1))
        return
    old = read_json(resolved).get("recipe", {})
    if changed := differences(old, source.table):
        raise FolderError(
            f"{run.path} holds a run of another recipe: {'; '.join(changed)}",
            "take another --out, or set these back to go on with the run that is there",
        )


def _train(source: RecipeFile, run: RunFolder, device: torch.device, group: Group) -> TrainResult:
    recipe, say = source.recipe, console.note if group.is_first else _silence
    task, model = begin(source, run, device, say=say, group=group)
    with ExitStack() as stack:
        stop = stack.enter_context(_stop_signal())
        report = _silence
        if group.is_first:
            report = stack.enter_context(console.Progress(recipe.training.max_steps)).report
        trainer = Trainer(
            model,
            task.objective(),
            task.loader(group),
            recipe.training,
            run,
            model_files(task.config, task.labels, task.files, source.text),
            validate=task.validate,
            report=report,
            stop=stop,
            group=group,
        )
        if checkpoint := run.latest():
            say(f"going on from step {checkpoint.step}")
            before = checkpoint.read_json("state.json").get("device")
            if before != str(device) and group.is_first:
                console.warn(f"device: {before} then, {device} now; the bits will not be the same")
        state = trainer.train()
    metrics = finish(source, task, run, device) if group.is_first else {}
    return TrainResult(run=run.path, model=run.path / "best", steps=state.step, metrics=metrics)


def _silence(_: object) -> None:
    """What the other workers say."""


@contextmanager
def _stop_signal() -> Iterator[Callable[[], int | None]]:
    """A first SIGINT or SIGTERM asks for a stop after the update; a second does its usual work."""
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    usual: Mapping[int, Any] = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)
    }

    def catch(number: int, frame: object) -> None:
        caught.append(number)
        console.note("stopping after this update; once more stops at once")
        signal.signal(number, usual[number])

    for number in usual:
        signal.signal(number, catch)
    try:
        yield lambda: caught[0] if caught else None
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
