"""Transcribe: the transcript of each recording, in order."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from regard.data.loader import bucket_by_length
from regard.data.transcriptions import pad_frames, read_frames, standardise
from regard.decoding.ctc import Transcript, alignment_search
from regard.errors import DataError, UserError
from regard.models.conformer import Conformer
from regard.models.speech_to_text import SpeechToText
from regard.verbs.generation.controls import MODEL_BEAM, BeamSize
from regard.verbs.generation.decoding_defaults import default_beam
from regard.verbs.generation.subtitles import subtitles
from regard.verbs.generation.transcripts import RecordingTranscript, SpeechTranscriber
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.load_encoder import refuse_other_labels
from regard.verbs.shared.model_loading import model_that
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.shows_model import ShowsModel
from regard.verbs.shared.suggested_recipes import needs_model
from regard.verbs.shared.text_options import SpeechOptions, SubtitleFormat
from regard.verbs.tasks.transcription import BATCH_FRAMES
from regard.weights.model_folder import LoadedModel

RecordedFrames = Float[np.ndarray, "_ features"]
Recording = RecordedFrames | Float[np.ndarray, " _"]
PLAIN = SpeechOptions()
SOUND_SUFFIXES = (".wav", ".flac", ".mp3", ".oga", ".ogg", ".opus")


class Transcriber(ShowsModel):
    """A model, loaded once, that transcribes. A transcript does not depend on the batch of its recording.

    Args:
        model: a model or run folder, a Hugging Face folder of Whisper, or what `regard.load` gives.
    """

    @needs_model
    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel,
        *,
        options: SpeechOptions = PLAIN,
        beam: BeamSize = MODEL_BEAM,
        runtime: Runtime = DEFAULT_RUNTIME,
    ) -> None:
        self.loaded = open_model(model, runtime)
        self.timestamps = options.timestamps
        self._transcribe: SpeechTranscriber | FrameTranscriber
        if isinstance(self.loaded.model, SpeechToText):
            self._transcribe = SpeechTranscriber(self.loaded, options, beam)
        else:
            self._transcribe = FrameTranscriber(self.loaded, options, beam)

    def __call__(self, recordings: Sequence[Recording]) -> list[RecordingTranscript]:
        """The transcript of each recording: an array frames x features, or samples for a model like Whisper.

        Raises:
            DataError: a recording is empty, or not what the model reads.
        """
        return list(self._transcribe(recordings))

    def file(self, path: str | Path) -> list[RecordingTranscript]:
        """The transcripts of the recordings in an NPZ file (arrays `frames` and `lengths`).

        A model like Whisper reads a sound file (WAV, FLAC, MP3, Ogg), which is one recording.
        """
        return list(self._transcribe.file(Path(path)))


class FrameTranscriber:
    """A conformer, which transcribes recordings that are frames of features."""

    def __init__(self, loaded: LoadedModel, options: SpeechOptions, beam: BeamSize) -> None:
        self.model = model_that("transcribes", Conformer, loaded)
        if options != PLAIN:
            raise UserError(
                f"{loaded.path}: a conformer has no languages, tasks and timestamps",
                "leave out language, task and timestamps, or give a Whisper model",
            )
        self.labels = loaded.labels
        refuse_other_labels(loaded, self.model.config.num_labels)
        self.search = alignment_search(beam if beam.has_beam else default_beam(loaded))

    def __call__(self, recordings: Sequence[Recording]) -> Iterator[RecordingTranscript]:
        """The transcript of each recording, an array frames x features."""
        features = self.model.config.num_features
        for line, recording in enumerate(recordings, start=1):
            if recording.ndim != 2 or recording.shape[1] != features or not len(recording):
                shape = "samples" if recording.ndim == 1 else f"frames of {recording.shape[1]} features"
                raise DataError(
                    f"recording {line} has {len(recording)} {shape}",
                    f"give one frame or more of {features} features, as the model reads",
                )
        transcripts: dict[int, RecordingTranscript] = {}
        lengths = np.array([len(recording) for recording in recordings], np.int64)
        for group in bucket_by_length(np.arange(len(lengths)), lengths, lengths, BATCH_FRAMES):
            batch = [standardise(recordings[number].astype(np.float32)) for number in group]
            for number, transcript in zip(group.tolist(), self._decode(batch), strict=True):
                text = " ".join(self.labels[label] for label in transcript.ids)
                transcripts[number] = RecordingTranscript(
                    line=number + 1, text=text, log_prob=transcript.log_prob
                )
        yield from (transcripts[number] for number in range(len(lengths)))

    def file(self, path: Path) -> Iterator[RecordingTranscript]:
        """The transcripts of the recordings in an NPZ file (arrays `frames` and `lengths`)."""
        if path.suffix.lower() in SOUND_SUFFIXES:
            raise DataError(
                f"{path}: this model reads frames of features in an NPZ file, not sound",
                "a Whisper model reads sound (docs/pretrained.md)",
            )
        return self(read_frames(path))

    def _decode(self, recordings: Sequence[RecordedFrames]) -> list[Transcript]:
        if not recordings:
            return []
        frames, lengths = pad_frames(recordings)
        with torch.inference_mode():
            logits = self.model(frames.to(self.model.device), lengths.to(self.model.device))
        return self.search(logits.float().cpu(), self.model.subsampled(lengths))


@needs_model
@python_call
def transcribe(
    input: str | Path | Sequence[Recording],
    *,
    model: AnyModel,
    options: SpeechOptions = PLAIN,
    beam: BeamSize = MODEL_BEAM,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> list[str]:
    """The transcript of each recording in a file, or in a list of arrays.

    A model like Whisper reads a sound file (WAV, FLAC, MP3, Ogg), or arrays of samples at its rate; another
    model an NPZ file (arrays `frames` and `lengths`), or arrays frames x features. Labels of the latter are
    separated by spaces. For times, and for many calls, keep a `Transcriber`.

    Args:
        input: the file, or arrays.
        model: a model or run folder, a Hugging Face folder of Whisper, or what `regard.load` gives.

    Raises:
        DataError: the file is damaged, or not what the model reads.
        FolderError: the model does not transcribe. ConfigError: it has no such language or task.
    """
    transcriber = Transcriber(model, options=options, beam=beam, runtime=runtime)
    transcripts = transcriber.file(input) if isinstance(input, str | Path) else transcriber(input)
    return [each.text for each in transcripts]


def output_lines(
    transcribed: RecordingTranscript,
    *,
    as_json: bool = False,
    timestamps: bool = False,
    subtitle_format: SubtitleFormat | None = None,
) -> str:
    """What `regard transcribe` prints: the transcript, a line for each segment, subtitles, or JSON."""
    if subtitle_format is not None:
        return subtitles(transcribed.segments or (), subtitle_format)
    if as_json:
        return json.dumps(transcribed.to_dict(), ensure_ascii=False) + "\n"
    if timestamps:
        segments = [each for each in transcribed.segments or () if each.text]
        return "".join(f"{each.start:.2f}\t{each.end:.2f}\t{each.text}\n" for each in segments)
    return f"{transcribed.text}\n"
