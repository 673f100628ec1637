"""Log-mel spectrograms: sound -> frames of features, as Whisper reads them (Radford et al. 2023, 2.2)."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Float64
from torch import Tensor

HIGHEST = 8000.0  # hertz, of the last filter, whatever the sampling rate is
FLOOR, RANGE = 1e-10, 8.0  # of the power; in powers of ten below the loudest value
FRAMES_AT_ONCE = 6000  # a minute of sound: spectra of hours would fill the memory


@dataclass(frozen=True, kw_only=True)
class LogMel:
    """The settings of the features: how many filters a frame has, and which samples it is computed from."""

    num_features: int = 80
    sampling_rate: int = 16000  # samples a second
    fft_size: int = 400  # samples of a frame
    hop_length: int = 160  # samples from one frame to the next

    def __call__(
        self, samples: Float32[np.ndarray, " samples"]
    ) -> Float[Tensor, "frames {self.num_features}"]:
        """A frame for each `hop_length` samples, from -1 to 1; there must be more samples than half a frame.

        The logarithm of the power is limited to 8 powers of ten below the loudest value of all frames, and
        scaled to about -1 to 1. Frames near both ends see the sound mirrored.
        """
        half = self.fft_size // 2
        mirrored = F.pad(torch.from_numpy(samples)[None], (half, half), mode="reflect")[0]
        filters = torch.from_numpy(mel_filters(self.num_features, self.fft_size, self.sampling_rate).T)
        count, blocks = len(samples) // self.hop_length, []
        for first in range(0, count, FRAMES_AT_ONCE):
            last = min(count, first + FRAMES_AT_ONCE) - 1
            block = mirrored[first * self.hop_length : last * self.hop_length + self.fft_size]
            blocks.append((filters @ self._powers(block)).clamp(min=FLOOR).log10())
        levels = torch.cat(blocks, dim=1)
        return ((levels.clamp(min=levels.max() - RANGE) + 4) / 4).T.contiguous()

    def _powers(self, samples: Float[Tensor, " samples"]) -> Float[Tensor, "frequencies frames"]:
        """The power of each frequency in each frame."""
        spectra = torch.stft(
            samples,
            self.fft_size,
            self.hop_length,
            window=torch.hann_window(self.fft_size),
            center=False,
            return_complex=True,
        )
        return spectra.abs() ** 2


@cache
def mel_filters(
    num_features: int, fft_size: int, sampling_rate: int
) -> Float32[np.ndarray, "frequencies {num_features}"]:
    """Triangular filters whose centres have equal distances in mel, each of the same area (Slaney 1998)."""
    frequencies = np.linspace(0, sampling_rate // 2, fft_size // 2 + 1)
    edges = _hertz(np.linspace(0, _mel(HIGHEST), num_features + 2))
    distances = edges - frequencies[:, None]
    rising = -distances[:, :-2] / np.diff(edges)[:-1]
    falling = distances[:, 2:] / np.diff(edges)[1:]
    filters = np.maximum(0, np.minimum(rising, falling))
    return (filters * (2 / (edges[2:] - edges[:-2]))).astype(np.float32)


LINEAR, LINEAR_MELS = 1000.0, 15.0  # hertz and mel up to which the scale is linear
STEP = np.log(6.4) / 27  # then a mel is a factor of e^STEP


def _mel(hertz: float) -> float:
    if hertz < LINEAR:
        return hertz * LINEAR_MELS / LINEAR
    return LINEAR_MELS + float(np.log(hertz / LINEAR)) / STEP


def _hertz(mel: Float64[np.ndarray, " count"]) -> Float64[np.ndarray, " count"]:
    return np.where(
        mel < LINEAR_MELS, mel * LINEAR / LINEAR_MELS, LINEAR * np.exp(STEP * (mel - LINEAR_MELS))
    )
