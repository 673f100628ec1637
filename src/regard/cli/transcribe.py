"""`regard transcribe`."""

import sys
from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing


@click.command("transcribe", cls=Command)
@click.argument("input", metavar="RECORDINGS", type=options.FILE)
@options.own_model
@options.beam_size
@options.as_json
@options.device
@options.threads
def command(
    input: Path,
    model: Path,
    beam_size: int | None,
    as_json: bool,
    device: str,
    threads: int | None,
) -> None:
    """Transcribe recordings.

    RECORDINGS is an NPZ file with `frames`, the feature vectors of all recordings one after the other, and
    `lengths`, the number of frames of each recording. Prints one line per recording.
    """
    with importing():
        from regard.verbs.transcribe import Transcriber, printed

    transcriber = Transcriber(model, beam_size=beam_size, device=device, threads=threads)
    for each in transcriber.file(input):
        sys.stdout.buffer.write(printed(each, as_json=as_json).encode("utf-8"))
