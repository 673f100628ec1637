"""`regard translate`."""

import functools
import sys
from typing import Any

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.job_options import Place, path_of, refuse_half_a_job, run
from regard.cli.text_command import check_text, lines_of
from regard.cli.translation_options import print_answers, translation_command
from regard.verbs.shared.text_options import ShardOptions, TranslationOptions


@click.command("translate", cls=Command)
@translation_command("Translate", options.model, TranslationOptions)
def command(
    text: str | None,
    input: Place | None,
    output: Place | None,
    sharding: ShardOptions,
    as_json: bool,
    **settings: Any,
) -> None:
    """Translate a text, a file or what comes through a pipe.

    Without TEXT and --input standard input is read. Each line of input gives a line of output, in the same
    order, as soon as it is translated; an empty line gives an empty line.
    """
    check_text(text, input)
    refuse_half_a_job(sharding, text=text is not None, input=input, output=output, output_is_file=True)

    with importing():
        from regard.verbs.generation.translations import check_compression, check_output
        from regard.verbs.shards import translate_shard
        from regard.verbs.translate import Translator

    if settings["model"] is None:
        _note_demonstration(waits=text is None and input is None)
    if sharding.is_job:
        run(translate_shard, sharding, output, input=input, as_json=as_json, **settings)
        return
    lines = None if text is None else lines_of(text)
    places = path_of(input), path_of(output)
    if text is None:
        check_output(*places)
    else:
        check_compression(places[1])
    translator = Translator(**settings)
    print_answers(translator, lines, *places, as_json=as_json, waits="type a line to translate it")


@functools.cache  # once a process
def _note_demonstration(waits: bool) -> None:
    """Tell a user at a terminal what the included model is, and how to get a better one."""
    from regard import console

    if console.notes_to_terminal() and console.is_terminal() and (not waits or sys.stdin.isatty()):
        console.note(
            "This is a small English-German demonstration model; `regard new SOURCE TARGET` begins one of"
            " your own, --model DIR names another."
        )
