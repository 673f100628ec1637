"""`regard jobs`."""

import re
from typing import TYPE_CHECKING

import click

from regard.cli.group import Command, VerbGroup
from regard.counted import counted
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.verbs.jobs import TaskProgress

MISSING = re.compile(r"part \d+ is missing")
SHOWN = 20  # missing parts, or lines that failed


@click.group("jobs", cls=VerbGroup)
def command() -> None:
    """Look at the output of commands with --shard, check it, and merge it.

    OUTPUT is the folder of --output, or of --out of a sweep, a path or an address such as s3://bucket/out.
    """


@command.command("status", cls=Command)
@click.argument("output")
def status(output: str) -> None:
    """Show how far a job is, and which lines failed."""
    from regard import console
    from regard.verbs.jobs import TaskProgress, jobs_status

    found = jobs_status(output)
    if isinstance(found, TaskProgress):
        print_tasks(found)
        return
    share = found.size_done / found.size if found.size else 1.0
    console.say(f"{found.done:,} of {counted(found.parts, 'part')} done, {share:.1%} of {found.size:,} bytes")
    if found.seconds:
        rate = found.lines / found.seconds
        left = found.seconds * (1 - share) / share if share else 0.0
        time = f"; about {console.duration(left)} of one process left" if found.missing else ""
        console.say(f"{counted(found.lines, 'line')}, {rate:,.0f} a second{time}")
    if found.missing:
        which = "missing part" if len(found.missing) == 1 else "missing parts"
        numbers = _listed([str(part) for part in found.missing])
        console.say(f"{which}: {numbers} ({len(found.missing):,} of {found.parts:,})")
    for url, line, reason in found.failed[:SHOWN]:
        console.say(f"failed: {url}, line {line} of its part: {reason}")
    if len(found.failed) > SHOWN:
        console.say(f"and {counted(len(found.failed) - SHOWN, 'more line')} that failed")


def print_tasks(found: "TaskProgress") -> None:
    """Print the scores of the tasks that are done, and which are missing."""
    from regard import console

    names, rows = found.table
    console.table("", ["run" if found.command == "train" else "test set", *names], rows)
    signatures = [
        (each["name"], each["signature"]) for one in found.done for each in one.result.get("scores", ())
    ]
    for name, signature in dict.fromkeys(signatures):
        console.say(f"{name}  {signature}")
    if found.missing:
        console.say(
            f"{len(found.done):,} of {len(found.tasks):,} are done, missing: {_listed([*found.missing])}"
        )


@command.command("verify", cls=Command)
@click.argument("output")
def verify(output: str) -> None:
    """Compare each part with its record, and the inputs with the plan."""
    from regard import console
    from regard.verbs.jobs import jobs_verify

    problems = jobs_verify(output)
    for each in problems[:SHOWN]:
        console.say(each)
    if problems:
        again = "run a shard's command again, with --shard 1/1 for all that are missing"
        damaged = not all(map(MISSING.fullmatch, problems))
        remove = "remove the record (.json) of a damaged part, and " if damaged else ""
        raise DataError(
            f"{counted(len(problems), 'thing is', 'things are')} wrong with {output}", remove + again
        )
    console.say("all parts are there and are what was recorded")


@command.command("merge", cls=Command)
@click.argument("output")
@click.option(
    "--to", required=True, metavar="FILE", help="The file to write; compressed if it ends with .gz."
)
def merge(output: str, to: str) -> None:
    """Write the output of all parts as one file, in the order of the input."""
    from regard import console
    from regard.verbs.jobs import jobs_merge

    console.say(f"{counted(jobs_merge(output, to=to), 'line')}: {to}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
