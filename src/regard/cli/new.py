"""`regard new`."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command

PAIR_OPTIONS = "--valid", "--test"  # options that take one file or two


class NewCommand(Command):
    """A command whose PAIR_OPTIONS take one file or two: `--valid A B` is `--valid A --valid B`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, _in_pairs(args))
        except click.MissingParameter:  # `--valid dev.csv train.csv`: the second file is SOURCE
            return super().parse_args(ctx, args)


def _in_pairs(args: Sequence[str]) -> list[str]:
    """`--valid A B` as `--valid A --valid B`."""
    rest, expanded = list(args), list[str]()
    while rest:
        expanded.append(rest.pop(0))
        if (
            expanded[-1] in PAIR_OPTIONS
            and len(rest) > 1
            and not any(word.startswith("-") for word in rest[:2])
        ):
            expanded += [rest.pop(0), expanded[-1], rest.pop(0)]
    return expanded


@click.command(
    "new",
    cls=NewCommand,
    if_more="it takes one corpus: of texts a file or a folder of .txt files; a recipe of pairs has a table"
    " [[data.train]] for each of several corpora: docs/new.md",
)
@click.argument("source", type=options.FILE_PATH)
@click.argument("target", type=options.FILE_PATH, required=False)
@click.option(
    "--task",
    metavar="TASK",
    help="translation, classification, regression, tagging, language_model or images. [default: detected]",
)
@click.option(
    "--valid",
    type=options.FILE_PATH,
    multiple=True,
    metavar="FILE [FILE]",
    help="Files to validate on; without it some lines are held out.",
)
@click.option(
    "--test",
    type=options.FILE_PATH,
    multiple=True,
    metavar="FILE [FILE]",
    help="Files to test on, once at the end.",
)
@options.columns(
    "Columns of a table, by name or number from 0: source,target, text,label or image,label."
    " [default: detected]"
)
@click.option(
    "--minutes",
    type=float,
    metavar="N",
    help="Training time of a translation or for images; the speed on this machine is measured. [default: 60]",
)
@click.option(
    "--cores",
    type=options.LimitedInt("cores"),
    metavar="N",
    help="CPU cores for the training. [default: all; or a GPU if there is one]",
)
@click.option(
    "--init",
    metavar="MODEL",
    help="A trained translation model to fine-tune: a folder, or en-de, the included one.",
)
@click.option(
    "--for",
    "targets",
    callback=options.names,
    metavar="TARGET,TARGET",
    help="Targets of `regard export` that the model must fit: ctranslate2, onnx, web, argos, gguf, hf.",
)
@click.option(
    "--clean",
    is_flag=True,
    help="Leave out pairs of a translation that look like mistakes (problems.tsv beside the data lists them),"
    " repeated pairs, and those of validation or test data.",
)
@click.option(
    "--out",
    metavar="RECIPE",
    help="The recipe to write, or a folder for it. [default: named after the files, in this folder]",
)
def command(
    source: Path,
    target: Path | None,
    task: str | None,
    valid: tuple[Path, ...],
    test: tuple[Path, ...],
    columns: tuple[str, ...],
    minutes: float | None,
    cores: int | None,
    init: str | None,
    targets: tuple[str, ...],
    clean: bool,
    out: str | None,
) -> None:
    """Write a commented recipe for a corpus of your own.

    SOURCE and TARGET are two aligned text files for a translation. SOURCE alone is a table (CSV, TSV, JSON
    Lines) of pairs or of texts with labels, a CoNLL-U file, a word and its label per line, or running text:
    a file, or a folder of .txt files. All may be gzipped. For images it is a folder with a folder for each
    class, or a table of paths and labels; or a folder of such folders, called train, and valid or test.

    Holds out some lines or images for validation, reports problems in the files, and proposes a model and a
    run for the amount of data and the time; with --init the run continues from a trained model. The lines are
    written into a folder next to the recipe; the files themselves do not change. A recipe that trains on
    several corpora has a table [[data.train]] for each (docs/new.md).
    """
    from regard import console
    from regard.verbs.new import new

    written = new(
        source,
        target,
        task=task,
        valid=valid,
        test=test,
        columns=columns,
        minutes=minutes,
        cores=cores,
        init=init,
        targets=targets,
        clean=clean,
        out=out,
    )
    if written.reading:
        click.echo(f"{source}: {written.reading}; change it with --task and --columns")
    skipped = "".join(f", {count:,} {reason} left out" for reason, count in sorted(written.skipped.items()))
    tested = f", {written.test:,} to test" if written.test else ""
    trained = f"{written.train:,} {written.unit} to train"
    validated = f"{written.valid:,} {'held out' if written.holds_out else 'to validate'}"
    click.echo(f"{written.recipe}: {trained}, {validated}{tested}{skipped}")
    for warning in written.warnings:
        console.warn(warning)
    for note in written.notes:
        click.echo(note)
    click.echo(f"{written.summary}: change what you like, then")
    recipe = shlex.quote(str(written.recipe))
    threads = "" if cores is None else f" --device cpu --threads {cores}"
    click.echo(f"  regard train {recipe}{threads} --dry-run")
    click.echo(f"  regard train {recipe}{threads}")
