"""Transcripts of recordings by a speech-to-text model: sound in, text with times out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.data.log_mel import LogMel
from regard.data.sound import read_sound
from regard.data.speech_languages import language_code
from regard.decoding.controls import controls_with
from regard.decoding.speech import DecodedSpeech, SpeechDecoder
from regard.decoding.timestamps import Segment
from regard.decoding.transcript_settings import TranscriptSettings
from regard.errors import DataError, FolderError
from regard.models.speech_to_text import SpeechToText
from regard.verbs.generation.controls import BeamSize
from regard.verbs.generation.decoding_defaults import GENERATION_FILE, decoding_defaults
from regard.verbs.shared.text_options import SpeechOptions
from regard.weights.model_folder import LoadedModel

Sound = Float[np.ndarray, " samples"]


@dataclass(frozen=True, kw_only=True)
class TranscriptSegment:
    """A part of a transcript, and its beginning and end in the recording, in seconds."""

    start: float
    end: float
    text: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of this segment."""
        return {"start": round(self.start, 2), "end": round(self.end, 2), "text": self.text}


@dataclass(frozen=True, kw_only=True)
class RecordingTranscript:
    """The transcript of a recording, the recording's number from 1, and the transcript's log-probability.

    A speech-to-text model also gives the segments, and the code of the language if it has several.
    """

    line: int
    text: str
    log_prob: float
    language: str | None = None
    segments: tuple[TranscriptSegment, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON object that `regard transcribe --json` prints; rounded to digits that no batch changes."""
        found: dict[str, Any] = {
            "line": self.line,
            "text": self.text,
            "log_prob": round(self.log_prob, 4),
        }
        if self.segments is None:
            return found
        segments = [segment.to_dict() for segment in self.segments]
        return {**found, "language": self.language, "segments": segments}


class SpeechTranscriber:
    """A speech-to-text model that transcribes recordings one by one.

    A recording that is longer than the model's window is decoded with timestamps, by which it is divided.
    """

    def __init__(self, loaded: LoadedModel, options: SpeechOptions, beam: BeamSize) -> None:
        assert isinstance(loaded.model, SpeechToText)
        self.model, self.config = loaded.model, loaded.model.config
        self.tokenizer = loaded.tokenizers.target
        self.settings = _settings(loaded, options, beam)
        self.features = LogMel(
            num_features=self.config.num_features,
            sampling_rate=self.config.sampling_rate,
            fft_size=self.config.fft_size,
            hop_length=self.config.hop_length,
        )
        vocabulary = self.tokenizer.vocabulary()
        self._special = {vocabulary[text] for text in self.tokenizer.special_texts()}
        times = self.settings.no_timestamps_id
        self._first_time = self.config.vocab_size if times is None else times + 1

    def __call__(self, recordings: Sequence[np.ndarray]) -> Iterator[RecordingTranscript]:
        """The transcripts of recordings, each with the samples of one channel at the model's rate."""
        for line, samples in enumerate(recordings, start=1):
            self._refuse(samples, line)
        for line, samples in enumerate(recordings, start=1):
            yield self._transcript(samples.astype(np.float32), line)

    def file(self, path: Path) -> Iterator[RecordingTranscript]:
        """The transcript of a sound file."""
        yield self._transcript(read_sound(path, self.config.sampling_rate), 1)

    def _refuse(self, samples: np.ndarray, line: int) -> None:
        """Raise a DataError for what is not the sound of one channel."""
        if samples.ndim != 1 or samples.dtype.kind != "f" or not len(samples):
            raise DataError(
                f"recording {line} is {' x '.join(map(str, samples.shape))} of {samples.dtype}",
                f"give the samples of one channel from -1 to 1, {self.config.sampling_rate:,} a second",
            )
        if not np.isfinite(samples).all():
            raise DataError(f"recording {line} has samples that are not finite", "correct or remove it")

    def _transcript(self, samples: Sound, line: int) -> RecordingTranscript:
        at_once = self.config.samples_at_once
        is_long = len(samples) > at_once
        if is_long and self.settings.no_timestamps_id is None:
            raise DataError(
                f"recording {line} has {len(samples):,} samples, but the model reads {at_once:,}, and has no"
                " timestamps by which it could be divided",
                "cut it into shorter ones",
            )
        heard = -(-len(samples) // self.config.hop_length)
        frames = self.features(samples if is_long else np.pad(samples, (0, at_once - len(samples))))
        decoded = self._decoder(self.settings.timestamps or is_long)(frames, heard)
        return self._reported(decoded, line, len(samples) / self.config.sampling_rate)

    def _decoder(self, timestamps: bool) -> SpeechDecoder:
        return SpeechDecoder(
            self.model,
            self.settings.with_(timestamps=timestamps),
            bos_id=self.tokenizer.bos_id,
            eos_id=self.tokenizer.eos_id,
            tokenizer=self.tokenizer,
        )

    def _reported(self, decoded: DecodedSpeech, line: int, duration: float) -> RecordingTranscript:
        codes = {number: code for code, number in (self.settings.languages or {}).items()}
        language = self.settings.language
        return RecordingTranscript(
            line=line,
            text=self._text(number for segment in decoded.segments for number in segment.ids),
            log_prob=decoded.log_prob,
            language=language if decoded.language is None else codes[decoded.language],
            segments=tuple(self._segment(segment, duration) for segment in decoded.segments),
        )

    def _segment(self, segment: Segment, duration: float) -> TranscriptSegment:
        """The segment, which ends with the recording at the latest: a window is longer than a short one."""
        seconds = self.config.hop_length / self.config.sampling_rate  # of a frame
        start, end = (min(frame * seconds, duration) for frame in (segment.start, segment.end))
        return TranscriptSegment(start=start, end=end, text=self._text(segment.ids))

    def _text(self, ids: Iterable[int]) -> str:
        """The text of ids, without special tokens and times."""
        kept = [number for number in ids if number < self._first_time and number not in self._special]
        return self.tokenizer.decode(kept).strip()


def _settings(loaded: LoadedModel, options: SpeechOptions, beam: BeamSize) -> TranscriptSettings:
    """The settings of the model's folder, with what this call asks for.

    Raises:
        FolderError: a setting of the folder is not possible. ConfigError: the model has no such language or
            task, or no timestamps.
    """
    settings = decoding_defaults(TranscriptSettings, loaded)
    for name, number in settings.token_ids():
        if not 0 <= number < loaded.tokenizers.target.vocab_size:
            raise FolderError(
                f"{loaded.path / GENERATION_FILE}: {name} has {number}, which is not a token",
                "copy the folder again",
            )
    settings = settings.changed(controls_with(beam))
    asked = {
        "language": options.language and language_code(options.language),
        "task": options.task,
        "timestamps": options.timestamps or None,
    }
    return settings.with_(**{name: value for name, value in asked.items() if value is not None})
