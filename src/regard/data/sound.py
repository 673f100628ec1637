"""Sound files -> samples of one channel, from -1 to 1, at the rate that a model reads."""

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float32
from torch import Tensor

from regard.data.compressed_sound import CONVERT, RATES, decoded, is_compressed, refuse_longer
from regard.data.memory import refuse_beyond_memory
from regard.errors import DataError

Samples = Float32[np.ndarray, " samples"]
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE  # codes of formats; the last has the code elsewhere
COPY_AGAIN = "copy the file again, or " + CONVERT
LOBES = 48  # zero crossings of the resampling filter on each side
PASSED = 0.95  # of the frequencies that the lower rate can have, those that it keeps
MOST_WEIGHTS = 2**25  # of resampling filters; more are needed between rates without a common divisor


@dataclass(frozen=True)
class WavFormat:
    """How a WAV file stores its samples."""

    code: int
    channels: int
    rate: int  # samples a second
    bits: int

    def samples(self, content: bytes) -> Float32[np.ndarray, "samples channels"]:
        """The samples from -1 to 1. What is left of a cut last sample is not one."""
        frame = self.channels * self.bits // 8
        content = content[: len(content) // frame * frame]
        if self.code == FLOAT:
            values = np.frombuffer(content, f"<f{self.bits // 8}").astype(np.float32)
        elif self.bits == 8:  # the only one without a sign
            values = (np.frombuffer(content, np.uint8).astype(np.float32) - 128) / 128
        elif self.bits == 24:  # as the upper bytes of 32 bits
            parts = np.zeros((len(content) // 3, 4), np.uint8)
            parts[:, 1:] = np.frombuffer(content, np.uint8).reshape(-1, 3)
            values = parts.view("<i4")[:, 0].astype(np.float32) / 2**31
        else:
            values = np.frombuffer(content, f"<i{self.bits // 8}").astype(np.float32) / 2 ** (self.bits - 1)
        return values.reshape(-1, self.channels)


def read_sound(path: Path, rate: int) -> Samples:
    """Reads a WAV, FLAC, MP3 or Ogg file: the mean of its channels, resampled to `rate` samples a second.

    Raises:
        DataError: the file is missing, damaged or empty, has another format, or samples that are not finite.
        MissingExtra: it is compressed, and soundfile is not installed.
    """
    return sound_of(_content(path), path, rate)


def sound_of(content: bytes, name: str | Path, rate: int, most_seconds: float = math.inf) -> Samples:
    """The sound of a file's bytes, as `read_sound` gives it; `name` is used in messages.

    More than `most_seconds` of sound are refused before they are all in memory: a megabyte of compressed
    silence has an hour of it.
    """
    if is_compressed(content):
        samples, own_rate = decoded(content, name, most_seconds)
    else:
        stored, data = _parts(content, name)
        samples, own_rate = stored.samples(data).mean(axis=1, dtype=np.float32), stored.rate
    if not len(samples):
        raise DataError(f"{name}: the file has no sound", "give a recording")
    refuse_longer(len(samples), own_rate, most_seconds, name)
    if not np.isfinite(samples).all():
        raise DataError(f"{name}: a sample is not a finite number", COPY_AGAIN)
    try:
        return resampled(samples, own_rate, rate)
    except DataError as error:
        raise DataError(f"{name}: {error.message}", error.hint) from None


def resampled(samples: Samples, old: int, new: int) -> Float32[np.ndarray, " resampled"]:
    """The sound at another rate; equal rates change nothing.

    A sinc filter under a Kaiser window, computed at the `new` of every `old` samples. Frequencies near and
    above half of the lower rate are removed, which would otherwise sound as others.

    Raises:
        DataError: one of the rates is so unusual that this would need too much memory.
    """
    if old == new:
        return samples
    factor = math.gcd(old, new)
    old, new = old // factor, new // factor
    cutoff = PASSED * min(1, new / old)  # as a part of half of the old rate
    reach = math.ceil(LOBES / cutoff)
    if new * (old + 2 * reach) > MOST_WEIGHTS:
        raise DataError(f"{old * factor:,} Hz cannot be resampled to {new * factor:,} Hz", CONVERT)
    kernels = _kernels(old, new, cutoff, reach)
    count = math.ceil(len(samples) * new / old)
    padded = F.pad(torch.from_numpy(samples)[None, None], (reach, reach + old))
    blocks = F.conv1d(padded, kernels[:, None], stride=old)[0]  # new blocks
    return blocks.T.flatten()[:count].numpy()


def _kernels(old: int, new: int, cutoff: float, reach: int) -> Tensor:
    """The filter for each of `new` samples, over the samples around `old` of the sound."""
    places = torch.arange(-reach, old + reach + 1, dtype=torch.float64)
    distances = places - torch.arange(new, dtype=torch.float64)[:, None] * old / new
    inside = (1 - (distances / reach) ** 2).clamp(min=0)
    window = torch.special.i0(10 * inside.sqrt()) / torch.special.i0(torch.tensor(10.0, dtype=torch.float64))
    window = window.where(distances.abs() <= reach, 0.0)
    return (cutoff * torch.sinc(cutoff * distances) * window).float()


def _content(path: Path) -> bytes:
    try:
        if path.is_file():
            refuse_beyond_memory(4 * path.stat().st_size, path)
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file", "check the path") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder", "name the file in it") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}", "check the file and its permissions") from None


def _parts(content: bytes, path: str | Path) -> tuple[WavFormat, bytes]:
    """The format, and the bytes of the samples."""
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise DataError(f"{path}: not a WAV, FLAC, MP3 or Ogg file", CONVERT)
    found, at = None, 12
    while at + 8 <= len(content):
        name, size = struct.unpack_from("<4sI", content, at)
        part = content[at + 8 : at + 8 + size]
        if name == b"fmt ":
            found = _format(part, path)
        elif name == b"data":
            if found is None:
                break
            if len(part) < size != 2**32 - 1:  # so large in a file that was written to a pipe
                raise DataError(f"{path}: the sound ends {size - len(part):,} bytes too early", COPY_AGAIN)
            return found, part
        at += 8 + size + size % 2
    raise DataError(f"{path}: the file has no sound, or no format of it", COPY_AGAIN)


def _format(part: bytes, path: str | Path) -> WavFormat:
    if len(part) < 16:
        raise DataError(f"{path}: the format of the sound is cut short", COPY_AGAIN)
    code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", part)
    if code == EXTENSIBLE and len(part) >= 26:
        (code,) = struct.unpack_from("<H", part, 24)
    known = {PCM: (8, 16, 24, 32), FLOAT: (32, 64)}
    if bits not in known.get(code, ()):
        raise DataError(f"{path}: samples of format {code} with {bits} bits are not supported", CONVERT)
    if not channels or rate not in RATES:
        raise DataError(f"{path}: {channels} channels at {rate:,} Hz are not supported", CONVERT)
    return WavFormat(code, channels, rate, bits)
