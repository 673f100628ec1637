"""Compressed sound (FLAC, MP3, Ogg with Opus or Vorbis) -> samples, by libsndfile."""

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from regard.data.memory import refuse_beyond_memory
from regard.data.sound_headers import after_id3, flac_problem, mp3_samples, ogg_problem
from regard.errors import DataError, MissingExtra

CONVERT = "convert it: ffmpeg -i FILE -ar 16000 -ac 1 FILE.wav"
AGAIN = f"copy the file again, or {CONVERT}"
BLOCK = 2**20  # samples of all channels that are decoded at a time
MOST_CHANNELS = 8
RATES = range(1000, 400_001)
USUAL_RATE = 48_000  # a limit of seconds counts samples at this rate, for a higher one too
TOLERANCE = 4 * 1152  # samples that an MP3 encoder adds, which a decoder leaves out again


def is_compressed(content: bytes) -> bool:
    """True if a file begins as one of these formats does: an MP3 file with its tags, or with a frame."""
    begins_with_frame = len(content) > 1 and content[0] == 0xFF and content[1] & 0xE6 in (0xE2, 0xE4)
    return content.startswith((b"fLaC", b"OggS", b"ID3")) or begins_with_frame


def decoded(
    content: bytes, name: str | Path, most_seconds: float = math.inf
) -> tuple[Float32[np.ndarray, " samples"], int]:
    """The mean of the channels, from -1 to 1, and the number of samples a second; `name` is used in messages.

    Raises:
        DataError: the file is damaged or cut, has another format, or is longer than `most_seconds` or memory
            allows. MissingExtra: soundfile is not installed.
    """
    try:
        import soundfile
    except (ImportError, OSError):  # the latter without libsndfile
        raise MissingExtra("soundfile", "sound", f"{name}: compressed sound") from None
    expected = _expected_samples(content, name)
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            _refuse_unusual(file, name, most_seconds)
            samples, rate = _samples(file), file.samplerate
    except soundfile.LibsndfileError as error:
        raise DataError(f"{name}: not readable: {error.error_string.rstrip('.')}", AGAIN) from None
    if expected is not None and abs(len(samples) - expected) > TOLERANCE:
        raise DataError(
            f"{name}: {len(samples):,} samples were read, but its frames have {expected:,}", CONVERT
        )
    return samples, rate


def refuse_longer(samples: int, rate: int, most_seconds: float, name: str | Path) -> None:
    """Raise a DataError if `samples` are more than may be read."""
    if samples > most_seconds * min(rate, USUAL_RATE):
        at = f" at {rate:,} Hz" if rate > USUAL_RATE else ""
        seconds = most_seconds * min(rate, USUAL_RATE) / rate
        raise DataError(f"{name}: the sound is longer than {seconds:,g} seconds{at}", "cut it into parts")


def _expected_samples(content: bytes, name: str | Path) -> int | None:
    """How many samples an MP3 file has by its frames; None for other formats.

    Raises:
        DataError: the file is not one whole recording.
    """
    start, expected = after_id3(content), None
    if content.startswith(b"OggS"):
        problem = ogg_problem(content)
    elif content[start : start + 4] == b"fLaC":
        problem = flac_problem(content)
    else:
        expected, problem = mp3_samples(content)
    if problem:
        raise DataError(f"{name}: {problem}", AGAIN)
    return expected


def _refuse_unusual(file: Any, name: str | Path, most_seconds: float) -> None:
    """Raise a DataError for a file that is too long, or of unusual channels or rate; nothing is decoded."""
    if not 1 <= file.channels <= MOST_CHANNELS or file.samplerate not in RATES:
        raise DataError(
            f"{name}: {file.channels} channels at {file.samplerate:,} Hz are not supported", CONVERT
        )
    refuse_longer(file.frames, file.samplerate, most_seconds, name)
    refuse_beyond_memory(4 * file.frames, name)


def _samples(file: Any) -> Float32[np.ndarray, " samples"]:
    """The mean of the channels: as many samples as are decoded, which may be fewer than the header says."""
    samples, end = np.empty(file.frames, np.float32), 0
    while len(part := file.read(BLOCK // file.channels, dtype="float32", always_2d=True)):
        samples[end : end + len(part)] = part.mean(axis=1, dtype=np.float32)
        end += len(part)
    return samples[:end]
