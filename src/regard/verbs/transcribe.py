"""Transcribe: the transcript of each recording, in order."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from regard.data.loader import bucket_by_length
from regard.data.transcriptions import pad_frames, read_frames, standardise
from regard.decoding.ctc import Transcript, alignment_search
from regard.errors import DataError
from regard.models.conformer import Conformer
from regard.verbs.generation.controls import MODEL_BEAM, BeamSize
from regard.verbs.generation.decoding_defaults import default_beam
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.load_encoder import refuse_other_labels
from regard.verbs.shared.model_loading import model_that
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.suggested_recipes import needs_model
from regard.verbs.tasks.transcription import BATCH_FRAMES

RecordedFrames = Float[np.ndarray, "_ features"]


@dataclass(frozen=True, kw_only=True)
class RecordingTranscript:
    """The transcript of a recording, the recording's number from 1, and the transcript's log-probability."""

    line: int
    text: str
    log_prob: float

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that `regard transcribe --json` prints; rounded to digits that no batch changes."""
        return {"line": self.line, "text": self.text, "log_prob": round(self.log_prob, 4)}


class Transcriber:
    """A model, loaded once, that transcribes. A transcript does not depend on the batch of its recording.

    Args:
        model: a model or run folder, or what `regard.load` gives.
    """

    @needs_model
    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel,
        *,
        beam: BeamSize = MODEL_BEAM,
        runtime: Runtime = DEFAULT_RUNTIME,
    ) -> None:
        self.loaded = open_model(model, runtime)
        self.model = model_that("transcribes", Conformer, self.loaded)
        self.labels = self.loaded.labels
        refuse_other_labels(self.loaded, self.model.config.num_labels)
        self.search = alignment_search(beam if beam.has_beam else default_beam(self.loaded))

    def __call__(self, recordings: Sequence[RecordedFrames]) -> list[RecordingTranscript]:
        """The transcript of each recording, an array frames x features.

        Raises:
            DataError: a recording is empty, or does not have the model's number of features.
        """
        features = self.model.config.num_features
        for line, recording in enumerate(recordings, start=1):
            if recording.shape[1] != features or not len(recording):
                raise DataError(
                    f"recording {line} has {len(recording)} frames of {recording.shape[1]} features",
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
        return [transcripts[number] for number in range(len(lengths))]

    def file(self, path: str | Path) -> list[RecordingTranscript]:
        """The transcripts of the recordings in an NPZ file (arrays `frames` and `lengths`)."""
        return self(read_frames(Path(path)))

    def _decode(self, recordings: Sequence[RecordedFrames]) -> list[Transcript]:
        if not recordings:
            return []
        frames, lengths = pad_frames(recordings)
        with torch.inference_mode():
            logits = self.model(frames.to(self.model.device), lengths.to(self.model.device))
        return self.search(logits.float().cpu(), self.model.subsampled(lengths))


@needs_model
@checked
@keyword_fields
def transcribe(
    input: str | Path | Sequence[RecordedFrames],
    *,
    model: AnyModel,
    beam: BeamSize = MODEL_BEAM,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> list[str]:
    """The transcript of each recording in an NPZ file (arrays `frames` and `lengths`) or in a list of arrays.

    Labels are separated by spaces. For many calls keep a `Transcriber`.

    Args:
        input: the file, or arrays: frames x features.
        model: a model or run folder, or what `regard.load` gives.

    Raises:
        DataError: the file is damaged, or frames do not have as many features as the model reads.
        FolderError: the model does not transcribe.
    """
    transcriber = Transcriber(model, beam=beam, runtime=runtime)
    transcripts = transcriber.file(input) if isinstance(input, str | Path) else transcriber(input)
    return [each.text for each in transcripts]


def output_lines(transcribed: RecordingTranscript, *, as_json: bool = False) -> str:
    """The line that `regard transcribe` prints: the transcript, or JSON."""
    if as_json:
        return json.dumps(transcribed.to_dict(), ensure_ascii=False) + "\n"
    return f"{transcribed.text}\n"
