"""`regard train`."""

import os
from pathlib import Path
from typing import Any

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.errors import UserError
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.text_options import TaskOptions


@click.command("train", cls=Command, short_help="Train a model by a recipe, or resume a run.")
@click.argument("recipe", type=options.FILE_PATH)
@click.option("--out", type=options.FILE_PATH, metavar="DIR", help="Run folder. [default: runs/NAME]")
@options.overrides
@click.option(
    "--sweep",
    "values",
    multiple=True,
    metavar="SECTION.KEY=VALUE,VALUE",
    help="Train once with each of these values, and with each combination if repeated; --out has a run folder"
    " for each. [default of --out: runs/NAME-sweep]",
)
@options.fields_of("tasks", TaskOptions)
@click.option(
    "--init",
    type=options.FILE_PATH,
    metavar="DIR",
    help="Start from this pretrained model (a folder, or en-de): its shape, tokeniser, and weights that fit.",
)
@click.option("--resume", is_flag=True, help="Fail if there is no run to resume.")
@click.option(
    "--dry-run", is_flag=True, help="Check recipe and data, estimate the run's time and memory, keep nothing."
)
@click.option("--quiet", is_flag=True, help="Print warnings only: no notes, no progress, no scores.")
@options.runtime
@click.option(
    "--workers",
    type=options.LimitedInt("workers"),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes that share each batch, with --threads each.",
)
def command(
    recipe: Path,
    out: Path | None,
    overrides: tuple[str, ...],
    values: tuple[str, ...],
    tasks: TaskOptions,
    init: Path | None,
    resume: bool,
    dry_run: bool,
    quiet: bool,
    runtime: Runtime,
    workers: int,
) -> None:
    """Train a model by a recipe, or resume a run.

    RECIPE is a TOML file, the name of a recipe that comes with regard, or a run folder. The same
    command resumes a run that was stopped by Ctrl-C, a signal or a power cut. With another
    --set training.max_steps=N the run becomes longer or shorter.

    With --sweep each combination is a run, named after its values; the same command resumes the sweep.
    At the end the runs are listed, the best validation first.
    """
    if tasks != TaskOptions() and not values:
        raise UserError(
            "--shard, --on and --processes are for --sweep", "give values: --sweep training.seed=1,2,3"
        )
    if values and (resume or dry_run):
        option = "--resume" if resume else "--dry-run"
        raise UserError(f"{option} is for one run, no --sweep", "leave one of them out")
    if "RANK" in os.environ:  # started by torchrun: hide PyTorch's log of processes that end
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    with importing():
        from regard.verbs.train import train

    if values:
        settings = {"overrides": overrides, "init": init, "runtime": runtime, "workers": workers}
        _sweep(recipe, values, quiet, out=out, tasks=tasks, **settings)
        return
    result = train(
        recipe,
        out=out,
        overrides=overrides,
        init=init,
        resume=resume,
        dry_run=dry_run,
        quiet=quiet,
        runtime=runtime,
        workers=workers,
    )
    if result.model and not quiet:
        click.echo(f"model: {result.model}", err=True)


def _sweep(recipe: Path, values: tuple[str, ...], quiet: bool, **settings: Any) -> None:
    """Train all combinations, and print their scores."""
    from regard import console
    from regard.cli.jobs import print_tasks
    from regard.verbs.sweep import TaskRecord, sweep

    def note(record: TaskRecord) -> None:
        console.note(f"{record.task}: {record.seconds:.0f} seconds")

    found = sweep(recipe, values, done=None if quiet else note, quiet=quiet, **settings)
    if not quiet:
        print_tasks(found)
