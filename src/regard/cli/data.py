"""`regard data`."""

import dataclasses
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command, VerbGroup
from regard.cli.importing import importing
from regard.cli.job_options import PLACE, Place, run, shard_options
from regard.errors import DataError, UserError
from regard.verbs.shared.text_options import ShardOptions


@click.group("data", cls=VerbGroup)
def command() -> None:
    """List, download and check known data sets; tokenise a large corpus.

    regard searches for them in $REGARD_DATA, then in the user's cache. A recipe names a file of a
    data set as NAME:FILE.
    """


@command.command("list", cls=Command)
def list_() -> None:
    """List the known data sets, and which of them are on this machine."""
    from regard import console
    from regard.verbs.data import data_check, data_list

    here = data_check()
    console.table(
        "",
        ["name", "task", "size", "here", "licence"],
        [
            [each.name, each.task, f"{each.size / 1e6:.1f} MB", _state(each.name, here), each.licence]
            for each in data_list()
        ],
    )


@command.command("show", cls=Command)
@click.argument("name")
def show(name: str) -> None:
    """Show a data set: licence, source, files."""
    from regard import console
    from regard.verbs.data import data_check, data_show

    record = data_show(name)
    for label, text in (
        ("title", record.title),
        ("task", record.task),
        ("licence", record.licence),
        ("source", record.source),
        ("note", record.note),
    ):
        if text:
            click.echo(f"{label:8} {text}")
    console.table(
        "",
        ["file", "bytes", "state", "path"],
        [
            [status.file.name, f"{status.file.size:,}", status.state, str(status.path or "")]
            for status in data_check(name)[name]
        ],
    )


@command.command("get", cls=Command)
@click.argument("name")
def get(name: str) -> None:
    """Download the missing files of a data set, and verify their SHA-256."""
    from regard import console
    from regard.verbs.data import data_get

    with console.downloads() as progress:
        paths = data_get(name, progress=progress)
    for path in paths:
        click.echo(path)


@command.command("check", cls=Command)
@click.argument("name", required=False)
def check(name: str | None) -> None:
    """Verify the files of one data set, or of all that are on this machine."""
    from regard import console
    from regard.verbs.data import data_check

    rows = [
        [each, status.file.name, status.state, str(status.path or "")]
        for each, files in data_check(name).items()
        for status in files
    ]
    console.table("", ["data set", "file", "state", "path"], rows)
    bad = [
        f"{each}:{file} is {state}"
        for each, file, state, _ in rows
        if state == "damaged" or (name and state != "ok")
    ]
    if bad:
        raise DataError("; ".join(bad), f"regard data get {bad[0].partition(':')[0]}")


@command.command("tokenize", cls=Command)
@click.argument("recipe", type=options.FILE_PATH)
@click.option(
    "--input",
    type=PLACE,
    required=True,
    metavar="FILE",
    help="A path or address, or a pattern of them: lines of SOURCE and TARGET with a tab between, or"
    " documents, plain or compressed; or tables, with --column SOURCE,TARGET or --column TEXT.",
)
@click.option("--output", type=PLACE, required=True, metavar="DIR", help="The folder that all shards share.")
@options.overrides
@shard_options
def tokenize(
    recipe: Path, input: Place, output: Place, overrides: tuple[str, ...], sharding: ShardOptions
) -> None:
    """Tokenise a corpus once, by one process or many, for a training that reads it in parts.

    RECIPE is the recipe of the training, of a translation or a language model: its [tokenizer],
    [data.lines], batches.max_tokens and model.init count here, and its data.tokens is the output.
    """
    if not sharding.is_job:
        if sharding.processes is not None:
            raise UserError("--processes is for a cluster", "give --on ray, too")
        sharding = dataclasses.replace(sharding, on="local")

    with importing():
        from regard.verbs.tokenize_corpus import tokenize_corpus

    run(tokenize_corpus, sharding, output, recipe=recipe, input=input, overrides=overrides)


def _state(name: str, here: dict) -> str:
    states = [status.state for status in here.get(name, [])]
    if not states:
        return "no"
    return "yes" if set(states) == {"ok"} else f"{states.count('ok')} of {len(states)} files"
