"""The folder of a training run: locked by one process, with the recipe that it trains."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from regard import console
from regard.distributed.group import Group
from regard.verbs.shared.run_recipe import recorded
from regard.verbs.shared.settings import RESOLVED
from regard.verbs.tasks.recipe import RecipeFile
from regard.verbs.tasks.task import Say
from regard.verbs.training_run.changed_settings import changed_settings, record_changes, refuse_another_recipe
from regard.verbs.training_run.initial_model import START
from regard.verbs.training_run.paper_factor import with_factor
from regard.verbs.training_run.process_agreement import refuse_another_run
from regard.verbs.training_run.product_choice import PRODUCTS
from regard.verbs.training_run.recorded_recipe import recorded_settings, write_recipe
from regard.verbs.training_run.run_length import change_length, with_own_length
from regard.verbs.training_run.teacher import TEACHER
from regard.verbs.training_run.thread_choice import THREADS
from regard.verbs.training_run.unbegun_run import begin_again
from regard.weights.checkpoint import RunFolder

PREPARED = (START, TEACHER, THREADS, PRODUCTS)  # files of a run that are written before its first checkpoint


@contextmanager
def locked_run(
    path: Path, source: RecipeFile, group: Group, say: Say, wait: float, *, keeps_length: bool = False
) -> Iterator[tuple[RunFolder, RecipeFile]]:
    """The run folder, locked by the first process, and its recipe; the others wait until it has the recipe.

    `wait`: the seconds to wait for a process that holds the lock. `keeps_length`: the length that the run
    has is not changed back by a recipe from before (`with_own_length`).
    """
    run = RunFolder(path)
    with ExitStack() as stack:
        if group.is_first:
            stack.enter_context(run.lock(wait))
            source = _as_in_run(run, source, say, keeps_length=keeps_length)
            _write_recipe(run, source, say)
            for warning in run.environment_warnings():
                console.warn(warning)
        group.barrier()
        if not group.is_first:
            source = _as_in_run(run, source, lambda _: None, keeps_length=keeps_length)
        refuse_another_run(run, source, group)
        yield run, source


def _as_in_run(run: RunFolder, source: RecipeFile, say: Say, *, keeps_length: bool) -> RecipeFile:
    """The recipe with what the run has, and the recipe does not change."""
    for own in (with_own_length, with_factor) if keeps_length else (with_factor,):
        source, note = own(run, source)
        if note:
            say(note)
    return source


def _write_recipe(run: RunFolder, source: RecipeFile, say: Say) -> None:
    """Write the recipe into a new run folder, or compare it with the recipe of an existing one."""
    if not (run.path / RESOLVED).exists():
        write_recipe(run, source)
        return
    old = recorded_settings(run, source)
    if note := begin_again(run, old, source.table, PREPARED):
        say(note)
        write_recipe(run, source)
        return
    changed = changed_settings(run, old, source)
    refuse_another_recipe(run, changed)
    notes = [change_length(run, source), record_changes(run, changed)]
    if old != source.table or str(source.base) != recorded(run.path)["base"]:
        write_recipe(run, source)
    for note in filter(None, notes):
        say(note)
