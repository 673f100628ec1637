"""`regard compare`."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.verbs.shared.tokenize import Tokenize


@click.command("compare", cls=Command)
@options.refs
@click.argument("systems", type=options.FILE_PATH, nargs=-1, required=True, metavar="SYSTEM SYSTEM...")
@options.tokenize
@options.lowercase
@options.as_json
def command(
    systems: tuple[Path, ...], ref: tuple[Path, ...], tokenize: Tokenize, lowercase: bool, as_json: bool
) -> None:
    """Compare translations by several systems, with significance.

    Each SYSTEM is a file of translations, aligned with the references; the first is the baseline.
    p is the probability of a difference at least as large by chance (paired bootstrap resampling,
    Koehn 2004). All systems are scored with the same tokeniser.
    """
    from regard import console
    from regard.verbs.compare import compare

    comparisons = compare(systems, ref=ref, tokenize=tokenize, lowercase=lowercase)
    if as_json:
        click.echo(json.dumps([asdict(comparison) for comparison in comparisons], indent=2))
        return
    for comparison in comparisons:
        rows = [
            [
                each.system,
                f"{each.value:.2f}",
                "" if each.low is None else f"{each.low:.2f} to {each.high:.2f}",
                "baseline" if each.p_value is None else f"{each.p_value:.3f}",
            ]
            for each in comparison.systems
        ]
        console.table(f"{comparison.name}  {comparison.signature}", ["system", "score", "95 %", "p"], rows)
