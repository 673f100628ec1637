"""`regard data`."""

import click

from regard.cli.group import Command, VerbGroup
from regard.errors import DataError


@click.group("data", cls=VerbGroup)
def command() -> None:
    """Find, fetch and check known data sets.

    They are looked for under $REGARD_DATA, then in the user's cache. A recipe names a file
    of one as NAME:FILE.
    """


@command.command("list", cls=Command)
def list_() -> None:
    """List the data sets that regard knows, and which of them are here."""
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
    """Say all about one data set: licence, source, files."""
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
            [found.file.name, f"{found.file.size:,}", found.state, str(found.path or "")]
            for found in data_check(name)[name]
        ],
    )


@command.command("get", cls=Command)
@click.argument("name")
def get(name: str) -> None:
    """Download what is missing of a data set, verified by SHA-256."""
    from regard import console
    from regard.verbs.data import data_get

    with console.downloads() as progress:
        paths = data_get(name, progress=progress)
    for path in paths:
        click.echo(path)


@command.command("check", cls=Command)
@click.argument("name", required=False)
def check(name: str | None) -> None:
    """Look through the files of one data set, or of all that are here."""
    from regard import console
    from regard.verbs.data import data_check

    looked = data_check(name)
    rows = [
        [each, found.file.name, found.state, str(found.path or "")]
        for each, files in looked.items()
        for found in files
    ]
    console.table("", ["data set", "file", "state", "path"], rows)
    bad = [
        f"{each}:{file} is {state}"
        for each, file, state, _ in rows
        if state == "damaged" or (name and state != "ok")
    ]
    if bad:
        raise DataError("; ".join(bad), f"regard data get {bad[0].partition(':')[0]}")


def _state(name: str, here: dict) -> str:
    states = [found.state for found in here.get(name, [])]
    return (
        "no"
        if not states
        else "yes"
        if set(states) == {"ok"}
        else f"{states.count('ok')} of {len(states)} files"
    )
