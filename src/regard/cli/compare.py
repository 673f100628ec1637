"""`regard compare`."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.errors import UserError
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.tokenize import Tokenize


@click.command("compare", cls=Command)
@options.refs
@click.argument("systems", type=options.FILE_PATH, nargs=-1, required=True, metavar="SYSTEM...")
@click.option("--src", type=options.FILE_PATH, metavar="FILE", help="Sources, for a metric that reads them.")
@options.metrics
@options.tokenize
@options.lowercase
@click.option(
    "--labels/--no-labels",
    default=None,
    help="Each line is the label of a class: compare accuracies. [default: if the files have 20 lines"
    " or more, of which few differ]",
)
@options.as_json
@options.runtime
def command(
    systems: tuple[Path, ...],
    ref: tuple[Path, ...],
    src: Path | None,
    metric: tuple[Path, ...],
    tokenize: Tokenize,
    lowercase: bool,
    labels: bool | None,
    as_json: bool,
    runtime: Runtime,
) -> None:
    """Score outputs of one system, or compare those of several, with significance.

    Each SYSTEM is a file of translations or labels, one a line, aligned with the references; the first of
    several is the baseline. p is the probability of a difference at least as large by chance: for
    translations by paired bootstrap resampling (Koehn 2004), for labels by McNemar's exact test. All systems
    are scored with the same tokeniser.
    """
    if not ref and not metric:
        raise UserError("--ref FILE is missing", "give the references that the systems are compared with")

    with importing():
        from regard import console
        from regard.verbs.compare import compare

    comparisons = compare(
        systems,
        ref=ref,
        metric=metric,
        src=src,
        tokenize=tokenize,
        lowercase=lowercase,
        labels=labels,
        runtime=runtime,
    )
    if as_json:
        click.echo(json.dumps([asdict(comparison) for comparison in comparisons], indent=2))
        return
    columns = ["system", "score", "95 %", "p"][: 3 if len(systems) == 1 else None]
    for comparison in comparisons:
        digits = comparison.decimals
        rows = [
            [
                each.system,
                f"{each.value:z.{digits}f}",
                "" if each.low is None else f"{each.low:z.{digits}f} to {each.high:z.{digits}f}",
                "baseline" if each.p_value is None else f"{each.p_value:.3f}",
            ][: len(columns)]
            for each in comparison.systems
        ]
        console.table(f"{comparison.name}  {comparison.signature}", columns, rows)
