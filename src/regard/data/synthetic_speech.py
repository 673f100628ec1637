"""Synthetic speech: spoken digits as filterbank frames, generated from a seed.

A digit is a sequence of sounds; a sound is one or two loud frequency bands (formants), with noise for
fricatives. Speakers differ in vocal tract length, pace and loudness. Neighbouring sounds are smoothed into
each other, and noise is added to all frames. So no digit sounds the same twice, no single frame identifies
its digit, and digit boundaries are not marked.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from regard.data.augmentation import uniform
from regard.data.noise import derive_seed
from regard.data.synthetic import Split, split_of
from regard.errors import DataError

FEATURES = 16  # bands of the filterbank, from low to high
SHORTEST = 8  # frames of a digit, which leave two positions after subsampling by four


@dataclass(frozen=True)
class Sound:
    """A speech sound."""

    first: float  # the frequencies of its two formants, 0 is the lowest and 1 the highest
    second: float
    frames: int  # duration
    loudness: float = 1.0
    hiss: float = 0.0  # loudness of the fricative noise


SOUNDS = {
    "ah": Sound(0.40, 0.55, 6), "ai": Sound(0.45, 0.50, 5), "ao": Sound(0.35, 0.42, 7),
    "eh": Sound(0.35, 0.68, 6), "ih": Sound(0.25, 0.72, 5), "iy": Sound(0.18, 0.80, 7),
    "ow": Sound(0.30, 0.45, 7), "uw": Sound(0.20, 0.38, 7), "r": Sound(0.25, 0.58, 4, 0.8),
    "w": Sound(0.18, 0.30, 4, 0.7), "n": Sound(0.12, 0.62, 5, 0.6), "v": Sound(0.15, 0.50, 4, 0.5, 0.4),
    "z": Sound(0.15, 0.90, 5, 0.5, 0.9), "s": Sound(0.92, 1.00, 6, 0.7, 1.0),
    "f": Sound(0.75, 0.95, 5, 0.3, 0.8), "th": Sound(0.65, 0.85, 5, 0.25, 0.6),
    "t": Sound(0.80, 0.60, 3, 0.4, 0.7), "k": Sound(0.50, 0.70, 3, 0.4, 0.5),
}  # fmt: skip
DIGIT_PHONEMES = (
    "z ih r ow", "w ah n", "t uw", "th r iy", "f ao r",
    "f ai iy v", "s ih k s", "s eh v ah n", "eh iy t", "n ai iy n",
)  # fmt: skip


@dataclass(frozen=True)
class Utterance:
    """A spoken sequence of digits and its filterbank frames."""

    digits: tuple[int, ...]
    frames: Float32[np.ndarray, "frames features"]


def synthetic_utterance(
    number: int,
    *,
    seed: int,
    split: Split = "train",
    shortest: int = 3,
    longest: int = 8,
    noise: float = 0.25,
) -> Utterance:
    """Generates utterance `number` of a set, of `shortest` to `longest` digits.

    The same arguments give the same utterance. A sequence of digits belongs to one split only. `noise` is
    the standard deviation of the noise on each feature; a loud sound is 1.
    """
    for attempt in range(1000):
        rng = RandomNumbers(derive_seed(seed, number, attempt))
        count = shortest + int(rng.next() * (longest - shortest + 1))
        digits = tuple(int(10 * rng.next()) for _ in range(count))
        if split_of(" ".join(map(str, digits))) == split:
            return Utterance(digits=digits, frames=_frames(digits, rng, noise))
    raise DataError(f"too few sequences of digits fall into {split}", "raise longest")


class RandomNumbers:
    """A random number generator with the same numbers on every machine."""

    def __init__(self, seed: int) -> None:
        self.seed, self.place = seed, 0

    def next(self) -> float:
        """A number in [0, 1)."""
        return float(self.many(1)[0])

    def between(self, low: float, high: float) -> float:
        """A number in [low, high)."""
        return low + (high - low) * self.next()

    def many(self, count: int) -> np.ndarray:
        """Numbers in [0, 1)."""
        places = np.arange(self.place, self.place + count)
        self.place += count
        return uniform(self.seed, places, 1)[:, 0]

    def normal(self, count: int) -> np.ndarray:
        """Normally distributed numbers with mean 0 and deviation 1 (Box and Muller 1958)."""
        radius = np.sqrt(-2 * np.log(1 - self.many(count)))
        return radius * np.cos(2 * np.pi * self.many(count))


def _frames(
    digits: Sequence[int], rng: RandomNumbers, noise: float
) -> Float32[np.ndarray, "frames features"]:
    pace, tract, loudness = rng.between(0.8, 1.25), rng.between(0.9, 1.1), rng.between(0.7, 1.2)
    bands = np.linspace(0, 1, FEATURES)
    pieces = [np.zeros((2 + int(6 * rng.next()), FEATURES))]
    for digit in digits:
        pieces += _digit_frames(digit, rng, pace, bands * tract)
        if rng.next() < 0.4:  # else the next digit follows without a pause
            pieces.append(np.zeros((1 + int(6 * rng.next()), FEATURES)))
    pieces.append(np.zeros((2 + int(4 * rng.next()), FEATURES)))
    clean = np.concatenate(pieces)
    smoothed = np.stack([np.convolve(band, [0.25, 0.5, 0.25], "same") for band in clean.T], axis=1)
    added_noise = noise * rng.normal(smoothed.size).reshape(smoothed.shape)
    return (loudness * smoothed + added_noise).astype(np.float32)


def _digit_frames(digit: int, rng: RandomNumbers, pace: float, bands: np.ndarray) -> list[np.ndarray]:
    """The frames of a digit's sounds, each with a random duration."""
    sounds = [SOUNDS[name] for name in DIGIT_PHONEMES[digit].split()]
    lengths = [max(2, round(sound.frames * rng.between(0.7, 1.3) / pace)) for sound in sounds]
    lengths[0] += max(0, SHORTEST - sum(lengths))
    pieces = []
    for sound, length in zip(sounds, lengths, strict=True):
        formants = _formant(bands, sound.first) + 0.7 * _formant(bands, sound.second)
        hiss = sound.hiss * (bands > 0.5) * rng.many(length * FEATURES).reshape(length, FEATURES)
        pieces.append(sound.loudness * (formants + hiss))
    return pieces


def _formant(bands: np.ndarray, middle: float) -> np.ndarray:
    """A formant: 1 at the frequency `middle`, less on both sides."""
    return np.exp(-(((bands - middle) / 0.08) ** 2))
