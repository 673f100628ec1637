"""`regard transcribe`."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.text_command import write_output
from regard.errors import UserError
from regard.verbs.generation.controls import BeamSize
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.text_options import SpeechOptions, SubtitleFormat


@click.command("transcribe", cls=Command)
@click.argument("input", metavar="RECORDINGS", type=options.FILE_PATH)
@options.own_model
@options.fields_of("speech", SpeechOptions)
@options.fields_of("beam", BeamSize)
@click.option(
    "--subtitles",
    "subtitle_format",
    type=click.Choice(get_args(SubtitleFormat)),
    help="Print subtitles in this format.",
)
@options.as_json
@options.runtime
def command(
    input: Path,
    model: Path,
    speech: SpeechOptions,
    beam: BeamSize,
    subtitle_format: SubtitleFormat | None,
    as_json: bool,
    runtime: Runtime,
) -> None:
    """Transcribe recordings.

    With a Whisper model RECORDINGS is a sound file of any length: WAV, or FLAC, MP3 or Ogg with the extra
    `sound`. Its channels are averaged, and it is resampled to the model's rate. A longer one than the model's
    window is read window by window: the next one begins where, by the model's timestamps, the last whole
    segment ended.

    With other models RECORDINGS is an NPZ file with `frames`, the feature vectors of all recordings one
    after the other, and `lengths`, the number of frames of each recording. Prints one line per recording.
    """
    with importing():
        from regard.verbs.transcribe import Transcriber, output_lines

    if subtitle_format is not None:
        if as_json:
            raise UserError("--json has no subtitles", "leave out --json or --subtitles")
        speech = replace(speech, timestamps=True)
    form = {"as_json": as_json, "timestamps": speech.timestamps, "subtitle_format": subtitle_format}
    transcriber = Transcriber(model, options=speech, beam=beam, runtime=runtime)
    write_output(output_lines(each, **form) for each in transcriber.file(input))
