"""`regard curves`."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command


@click.command("curves", cls=Command)
@click.argument("run", type=options.FILE_PATH, nargs=-1, required=True, metavar="RUN...")
@options.as_json
def command(run: tuple[Path, ...], as_json: bool) -> None:
    """Draw loss and scores of a run, or compare the runs in a folder.

    Prints them to the terminal, and writes curves.svg and curves.png to the run folder. For several runs, or
    a folder of runs, such as that of a sweep, prints a table instead, the best run first: the settings that
    differ, the validation and test scores of the best model, and the time; below it the mean ± standard
    deviation over the seeds of each recipe. Each kind of task has a table of its own.
    """
    from regard import console
    from regard.verbs.compared_runs import compare_by_task, group_table, is_run, run_table, runs_in
    from regard.verbs.curves import run_curves, write_figures

    first = run[0]
    if len(run) > 1 or (not is_run(first) and runs_in(first)):
        by_task = compare_by_task(*run)
        if as_json:
            objects = [compared.to_dict() for compared in by_task.values()]
            shown = objects if len(objects) > 1 else objects[0]
            click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
            return
        for task, compared in by_task.items():
            before = f"{task.replace('_', ' ')}: " if len(by_task) > 1 else ""
            console.table(f"{before}{compared.order}", *run_table(compared))
            columns, rows = group_table(compared)
            if rows:
                console.table(
                    f"{before}mean ± standard deviation of runs that differ in their seed alone",
                    columns,
                    rows,
                )
        return
    if as_json:
        click.echo(json.dumps(asdict(run_curves(first)), indent=2))
        return
    found = run_curves(first)
    console.plot(found.loss_label, {"train": found.train_loss, "validation": found.validation_loss}, log=True)
    for label, scores in found.score_panels.items():
        console.plot(label, scores)
    for figure in write_figures(first, found):
        click.echo(figure)
