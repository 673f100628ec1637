"""`regard transcribe`."""

from pathlib import Path

import click

from regard.cli import options
from regard.cli.group import Command
from regard.cli.importing import importing
from regard.cli.text_command import write_output
from regard.verbs.generation.controls import BeamSize
from regard.verbs.shared.runtime import Runtime
from regard.verbs.shared.text_options import SpeechOptions


@click.command("transcribe", cls=Command)
@click.argument("input", metavar="RECORDINGS", type=options.FILE_PATH)
@options.own_model
@options.fields_of("speech", SpeechOptions)
@options.fields_of("beam", BeamSize)
@options.as_json
@options.runtime
def command(
    input: Path, model: Path, speech: SpeechOptions, beam: BeamSize, as_json: bool, runtime: Runtime
) -> None:
    """Transcribe recordings.

    With a Whisper model RECORDINGS is a WAV file of any length, whose channels are averaged, and which is
    resampled to the model's rate. A longer one than its window is read window by window: the next one
    begins where, by the model's timestamps, the last whole segment ended.

    With other models RECORDINGS is an NPZ file with `frames`, the feature vectors of all recordings one
    after the other, and `lengths`, the number of frames of each recording. Prints one line per recording.
    """
    with importing():
        from regard.verbs.transcribe import Transcriber, output_lines

    transcriber = Transcriber(model, options=speech, beam=beam, runtime=runtime)
    write_output(
        output_lines(each, as_json=as_json, timestamps=speech.timestamps) for each in transcriber.file(input)
    )
