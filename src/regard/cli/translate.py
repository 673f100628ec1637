"""`regard translate`."""

import functools
import sys
from typing import Any, get_args

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.job_options import Place, refuse_half_a_job, run
from regard.cli.text_command import check_text, lines_of
from regard.cli.translation_options import print_answers, table_of_output, translation_command
from regard.errors import UserError
from regard.verbs.shared.file_formats import format_to_translate, refuse_line_options
from regard.verbs.shared.text_options import FileFormat, ShardOptions, TranslationOptions

FORMAT = click.option(
    "--format",
    "file_format",
    type=click.Choice(get_args(FileFormat)),
    help="Translate lines, or the texts of subtitles, HTML or Markdown; their times and tags stay. [default:"
    " by the file's name; lines of standard input]",
)


@click.command("translate", cls=Command)
@translation_command("Translate", options.model, TranslationOptions, FORMAT)
def command(
    text: str | None,
    input: Place | None,
    output: Place | None,
    sharding: ShardOptions,
    as_json: bool,
    file_format: FileFormat | None,
    **settings: Any,
) -> None:
    """Translate a text, a file or what comes through a pipe.

    Without TEXT and --input standard input is read. Each line of input gives a line of output, in the same
    order, as soon as it is translated; an empty line gives an empty line. Subtitles (.srt, .vtt), HTML
    and Markdown (.md) keep everything but their texts.
    """
    check_text(text, input)
    kind = _format(file_format, sharding, input, as_json=as_json, n_best=settings["options"].n_best)
    refuse_half_a_job(sharding, text=text is not None, input=input, output=output, output_is_file=True)
    table = table_of_output(sharding, output, as_json=as_json, n_best=settings["options"].n_best)

    with importing():
        from regard.verbs.shards import translate_shard
        from regard.verbs.translate import Translator

    if settings["model"] is None:
        _note_demonstration(waits=text is None and input is None)
    if sharding.is_job:
        run(translate_shard, sharding, output, input=input, as_json=as_json, **settings)
        return
    print_answers(
        Translator,
        settings,
        None if text is None else lines_of(text),
        input,
        output,
        sharding,
        as_json=as_json,
        waits="type a line to translate it",
        table=table,
        file_format=kind,
    )


def _format(
    given: FileFormat | None, sharding: ShardOptions, input: Place | None, *, as_json: bool, n_best: int
) -> FileFormat:
    """What is translated; refuses a format that is not read, and options that it has not."""
    if sharding.is_job:
        if given not in (None, "lines"):
            raise UserError(f"--format {given} is not for a job", "leave --shard and --on out")
        return "lines"
    if sharding.column is not None and given not in (None, "lines"):
        raise UserError(f"--format {given} has no columns", "leave --format or --column out")
    kind = "lines" if sharding.column is not None else format_to_translate(input, given)
    refuse_line_options(kind, as_json=as_json, n_best=n_best)
    return kind


@functools.cache  # once a process
def _note_demonstration(waits: bool) -> None:
    """Tell a user at a terminal what the included model is, and how to get a better one."""
    from regard import console

    if console.notes_to_terminal() and console.is_terminal() and (not waits or sys.stdin.isatty()):
        console.note(
            "This is a small English-German demonstration model; `regard new SOURCE TARGET` begins one of"
            " your own, --model DIR names another."
        )
