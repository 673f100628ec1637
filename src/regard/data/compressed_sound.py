"""Compressed sound (FLAC, MP3, Ogg with Opus or Vorbis) -> samples, by libsndfile."""

import io
import math
import struct
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from regard.data.memory import refuse_beyond_memory
from regard.errors import DataError, MissingExtra

BLOCK = 2**20  # samples of a channel that are decoded at a time
FORMATS = ("FLAC", "MP3", "OGG")  # as libsndfile names them
COPY_AGAIN = "copy the file again"
PAGE_HEADER, ID3_HEADER = 27, 10  # bytes; an Ogg page's is followed by the lengths of its segments


def is_compressed(content: bytes) -> bool:
    """True if a file begins as one of these formats does: an MP3 file with its tags, or with a frame."""
    begins_with_frame = len(content) > 1 and content[0] == 0xFF and content[1] & 0xE6 in (0xE2, 0xE4, 0xE6)
    return content.startswith((b"fLaC", b"OggS", b"ID3")) or begins_with_frame


def decoded(
    content: bytes, name: str | Path, most_seconds: float = math.inf
) -> tuple[Float32[np.ndarray, " samples"], int]:
    """The mean of the channels, from -1 to 1, and the number of samples a second; `name` is used in messages.

    Raises:
        DataError: the file is damaged, has another format, or is longer than `most_seconds` or memory allows.
        MissingExtra: soundfile is not installed.
    """
    try:
        import soundfile
    except ImportError:
        raise MissingExtra("soundfile", "sound", f"{name}: compressed sound") from None
    if missing := _missing_bytes(content):
        raise DataError(f"{name}: the sound ends {missing:,} bytes too early", COPY_AGAIN)
    blocks = [np.zeros(0, np.float32)]
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            if file.format not in FORMATS:
                raise DataError(f"{name}: sound of format {file.format}", "give WAV, FLAC, MP3 or Ogg")
            for block in file.blocks(BLOCK, dtype="float32", always_2d=True):
                blocks.append(block.mean(axis=1, dtype=np.float32))
                refuse_longer(sum(map(len, blocks)), file.samplerate, most_seconds, name)
                refuse_beyond_memory(2 * 4 * BLOCK * len(blocks), name)
            return np.concatenate(blocks), file.samplerate
    except soundfile.LibsndfileError as error:
        raise DataError(f"{name}: not readable: {error.error_string.rstrip('.')}", COPY_AGAIN) from None


def refuse_longer(samples: int, rate: int, most_seconds: float, name: str | Path) -> None:
    """Raise a DataError if so many samples last longer than they may."""
    if samples > most_seconds * rate:
        raise DataError(f"{name}: the sound is longer than {most_seconds:,.0f} seconds", "cut it into parts")


def _missing_bytes(content: bytes) -> int:
    """How many bytes a file says it has beyond those that are there.

    libsndfile says so of FLAC alone: it fills the rest of a cut MP3 file with silence, and leaves out the
    last page of a cut Ogg file.
    """
    if content.startswith(b"OggS"):
        return max(0, _end_of_last_page(content) - len(content))
    return 0 if content.startswith(b"fLaC") else max(0, _end_of_mp3(content) - len(content))


def _end_of_last_page(content: bytes) -> int:
    """Where the last page of an Ogg file ends (RFC 3533)."""
    header = content.rfind(b"OggS")
    count = content[header + PAGE_HEADER - 1] if header + PAGE_HEADER <= len(content) else 0
    segments = content[header + PAGE_HEADER : header + PAGE_HEADER + count]
    return header + PAGE_HEADER + count + sum(segments)


def _end_of_mp3(content: bytes) -> int:
    """Where an MP3 file ends by its Xing header, which most encoders write; 0 without one.

    It is in the first frame: a name, flags, then the numbers of frames and of bytes, if the flags say so.
    """
    first = 0
    if content.startswith(b"ID3") and len(content) >= ID3_HEADER:
        first = ID3_HEADER + sum(byte << 7 * place for place, byte in enumerate(reversed(content[6:10])))
    places = [content.find(name, first, first + 64) for name in (b"Xing", b"Info")]
    header = max(places)
    if header < 0:
        return 0
    flags, *numbers = struct.unpack_from(">3I", content.ljust(header + 16, b"\0"), header + 4)
    return first + numbers[flags & 1] if flags & 2 else 0
