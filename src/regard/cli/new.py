"""`regard new`."""

from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command


@click.command("new", cls=Command)
@click.argument("source", type=options.FILE)
@click.argument("target", type=options.FILE)
@click.option(
    "--out", type=options.FILE, metavar="RECIPE", help="The recipe to write. [default: named after the files]"
)
def command(source: Path, target: Path, out: Path | None) -> None:
    """Write a commented recipe for two aligned text files.

    Holds out some lines for validation, and proposes sizes by how much text there is. The lines are
    written into a folder beside the recipe; the files themselves stay as they are.
    """
    from regard import console
    from regard.verbs.new import new

    written = new(source, target, out=out)
    skipped = "".join(f", {count:,} {reason} left out" for reason, count in sorted(written.skipped.items()))
    click.echo(
        f"{written.recipe}: {written.train_pairs:,} pairs to train, {written.valid_pairs:,} held out{skipped}"
    )
    for finding in written.survey.findings:
        (console.note if finding.is_note else console.warn)(finding.text)
    click.echo(
        f"a {written.plan.tier.preset} model, {written.plan.max_steps:,} updates: change what you like, then"
    )
    click.echo(f"  regard train {written.recipe} --dry-run")
    click.echo(f"  regard train {written.recipe}")
