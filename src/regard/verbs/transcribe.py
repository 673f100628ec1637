"""Transcribe: recordings in, what is said in each out; a line for a recording, in order."""

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
from regard.decoding.ctc import Transcript, search_of
from regard.errors import DataError, FolderError
from regard.models.conformer import Conformer
from regard.verbs.any_model import AnyModel, open_model
from regard.verbs.arguments import checked
from regard.verbs.box import model_that
from regard.verbs.decoding_defaults import beam_of
from regard.verbs.suggested_recipes import needs_model

BATCH_FRAMES = 16_384  # padded frames that are looked at together

Recording = Float[np.ndarray, "_ features"]


@dataclass(frozen=True, kw_only=True)
class Transcribed:
    """A recording by its number, what is said in it, and the logarithm of how likely the model finds that."""

    line: int
    text: str
    log_prob: float

    def to_dict(self) -> dict[str, Any]:
        """As `regard transcribe --json` prints it: with as many digits as do not depend on the others."""
        return {"line": self.line, "text": self.text, "log_prob": round(self.log_prob, 4)}


class Transcriber:
    """A model, loaded once, that transcribes. What it hears in a recording depends on that alone.

    Args:
        model: a model or run folder, or what `regard.load` gives.
        beam_size: 1 takes the likeliest alignment, more sums over alignments; the model's own without.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.
    """

    @needs_model
    @checked
    def __init__(
        self,
        model: AnyModel,
        *,
        beam_size: int | None = None,
        device: str = "auto",
        threads: int | None = None,
    ) -> None:
        self.loaded = open_model(model, device, threads)
        self.model = model_that("transcribes", Conformer, self.loaded)
        self.labels = self.loaded.labels
        if len(self.labels) != self.model.config.num_labels:
            raise FolderError(
                f"{self.loaded.path}: {len(self.labels)} labels for {self.model.config.num_labels} classes",
                "config.json belongs to another model: copy the folder again",
            )
        self.search = search_of(beam_size or beam_of(self.loaded))

    def __call__(self, recordings: Sequence[Recording]) -> list[Transcribed]:
        """What is said in each: frames x features, as many features as the model reads."""
        features = self.model.config.num_features
        for line, recording in enumerate(recordings, start=1):
            if recording.shape[1] != features or not len(recording):
                raise DataError(
                    f"recording {line} is {len(recording)} x {recording.shape[1]}",
                    f"the model reads one frame or more of {features} features",
                )
        found: dict[int, Transcribed] = {}
        lengths = np.array([len(recording) for recording in recordings], np.int64)
        for group in bucket_by_length(np.arange(len(lengths)), lengths, lengths, BATCH_FRAMES):
            batch = [standardise(recordings[number].astype(np.float32)) for number in group]
            for number, transcript in zip(group.tolist(), self._heard(batch), strict=True):
                text = " ".join(self.labels[label] for label in transcript.ids)
                found[number] = Transcribed(line=number + 1, text=text, log_prob=transcript.log_prob)
        return [found[number] for number in range(len(lengths))]

    def file(self, path: str | Path) -> list[Transcribed]:
        """The same for the recordings of an NPZ file."""
        return self(read_frames(Path(path)))

    def _heard(self, recordings: Sequence[Recording]) -> list[Transcript]:
        if not recordings:
            return []
        frames, lengths = pad_frames(recordings)
        with torch.inference_mode():
            logits = self.model(frames.to(self.model.device), lengths.to(self.model.device))
        return self.search(logits.float().cpu(), self.model.subsampled(lengths))


@needs_model
@checked
def transcribe(
    input: str | Path | Sequence[Recording],
    *,
    model: AnyModel,
    beam_size: int | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> list[str]:
    """What is said in each recording of an NPZ file (arrays `frames` and `lengths`), or of several arrays.

    Labels are set apart by spaces. For many calls keep a `Transcriber`.

    Args:
        input: the file, or arrays: frames x features.
        model: a model or run folder, or what `regard.load` gives.
        beam_size: 1 takes the likeliest alignment, more sums over alignments; the model's own without.
        device: "cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.
        threads: CPU threads; PyTorch's choice without.

    Raises:
        DataError: the file is damaged, or frames have not as many features as the model reads.
        FolderError: the model does not transcribe.
    """
    transcriber = Transcriber(model, beam_size=beam_size, device=device, threads=threads)
    found = transcriber.file(input) if isinstance(input, str | Path) else transcriber(input)
    return [each.text for each in found]


def printed(transcribed: Transcribed, *, as_json: bool = False) -> str:
    """A line: what is said; or JSON."""
    if as_json:
        return json.dumps(transcribed.to_dict(), ensure_ascii=False) + "\n"
    return f"{transcribed.text}\n"
