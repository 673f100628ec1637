"""Digits as a machine might say them: frames of a filterbank, made from a seed, nothing recorded.

A digit is a row of sounds, a sound one or two bands of frequencies that are loud (formants), with hiss
where breath is heard. Speakers differ in the length of their throats, in pace and in loudness; sounds
flow into each other, and noise lies over everything. So one digit never sounds twice the same, no
frame tells by itself which digit it is part of, and nothing says where one digit ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32

from regard.data.augmentation import uniform
from regard.data.noise import mixed
from regard.data.synthetic import Split, split_of
from regard.errors import DataError

FEATURES = 16  # bands of the filterbank, from low to high
SHORTEST = 8  # frames of a digit, so that two positions are left of it where four frames become one


@dataclass(frozen=True)
class Sound:
    """Where its bands lie (0 is the lowest frequency, 1 the highest), how long and loud it is, its hiss."""

    first: float
    second: float
    frames: int
    loudness: float = 1.0
    hiss: float = 0.0


SOUNDS = {
    "ah": Sound(0.40, 0.55, 6), "ai": Sound(0.45, 0.50, 5), "ao": Sound(0.35, 0.42, 7),
    "eh": Sound(0.35, 0.68, 6), "ih": Sound(0.25, 0.72, 5), "iy": Sound(0.18, 0.80, 7),
    "ow": Sound(0.30, 0.45, 7), "uw": Sound(0.20, 0.38, 7), "r": Sound(0.25, 0.58, 4, 0.8),
    "w": Sound(0.18, 0.30, 4, 0.7), "n": Sound(0.12, 0.62, 5, 0.6), "v": Sound(0.15, 0.50, 4, 0.5, 0.4),
    "z": Sound(0.15, 0.90, 5, 0.5, 0.9), "s": Sound(0.92, 1.00, 6, 0.7, 1.0),
    "f": Sound(0.75, 0.95, 5, 0.3, 0.8), "th": Sound(0.65, 0.85, 5, 0.25, 0.6),
    "t": Sound(0.80, 0.60, 3, 0.4, 0.7), "k": Sound(0.50, 0.70, 3, 0.4, 0.5),
}  # fmt: skip
DIGITS = (
    "z ih r ow", "w ah n", "t uw", "th r iy", "f ao r",
    "f ai iy v", "s ih k s", "s eh v ah n", "eh iy t", "n ai iy n",
)  # fmt: skip


@dataclass(frozen=True)
class Utterance:
    """What was said, and its sound."""

    digits: tuple[int, ...]
    frames: Float32[np.ndarray, "frames features"]


def spoken_digits(
    number: int,
    *,
    seed: int,
    split: Split = "train",
    shortest: int = 3,
    longest: int = 8,
    noise: float = 0.25,
) -> Utterance:
    """Utterance `number` of a set: between `shortest` and `longest` digits, the same for the same arguments.

    A row of digits belongs to one split, so that none is tested that was trained on. `noise` is the
    deviation of what lies over each feature, where a loud sound is 1.
    """
    for attempt in range(1000):
        draws = RandomNumbers(mixed(seed, number, attempt))
        count = shortest + int(draws.next() * (longest - shortest + 1))
        digits = tuple(int(10 * draws.next()) for _ in range(count))
        if split_of(" ".join(map(str, digits))) == split:
            return Utterance(digits=digits, frames=_said(digits, draws, noise))
    raise DataError(f"too few rows of digits fall into {split}", "raise longest")


class RandomNumbers:
    """Numbers in [0, 1), one after the other, that a seed makes on any machine."""

    def __init__(self, seed: int) -> None:
        self.seed, self.place = seed, 0

    def next(self) -> float:
        return float(self.many(1)[0])

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.next()

    def many(self, count: int) -> np.ndarray:
        places = np.arange(self.place, self.place + count)
        self.place += count
        return uniform(self.seed, places, 1)[:, 0]

    def normal(self, count: int) -> np.ndarray:
        """Of mean 0 and deviation 1 (Box and Muller 1958)."""
        radius = np.sqrt(-2 * np.log(1 - self.many(count)))
        return radius * np.cos(2 * np.pi * self.many(count))


def _said(
    digits: Sequence[int], draws: RandomNumbers, noise: float
) -> Float32[np.ndarray, "frames features"]:
    pace, throat, loudness = draws.between(0.8, 1.25), draws.between(0.9, 1.1), draws.between(0.7, 1.2)
    bands = np.linspace(0, 1, FEATURES)
    pieces = [np.zeros((2 + int(6 * draws.next()), FEATURES))]
    for digit in digits:
        pieces += _word(digit, draws, pace, bands * throat)
        if draws.next() < 0.4:  # else the next digit follows without a pause
            pieces.append(np.zeros((1 + int(6 * draws.next()), FEATURES)))
    pieces.append(np.zeros((2 + int(4 * draws.next()), FEATURES)))
    clean = np.concatenate(pieces)
    flowing = np.stack([np.convolve(band, [0.25, 0.5, 0.25], "same") for band in clean.T], axis=1)
    over = noise * draws.normal(flowing.size).reshape(flowing.shape)
    return (loudness * flowing + over).astype(np.float32)


def _word(digit: int, draws: RandomNumbers, pace: float, bands: np.ndarray) -> list[np.ndarray]:
    """The sounds of a digit, each held for as long as this speaker holds it this time."""
    sounds = [SOUNDS[name] for name in DIGITS[digit].split()]
    lengths = [max(2, round(sound.frames * draws.between(0.7, 1.3) / pace)) for sound in sounds]
    lengths[0] += max(0, SHORTEST - sum(lengths))
    pieces = []
    for sound, length in zip(sounds, lengths, strict=True):
        formants = _band(bands, sound.first) + 0.7 * _band(bands, sound.second)
        hiss = sound.hiss * (bands > 0.5) * draws.many(length * FEATURES).reshape(length, FEATURES)
        pieces.append(sound.loudness * (formants + hiss))
    return pieces


def _band(bands: np.ndarray, middle: float) -> np.ndarray:
    """One at the middle of a formant, less to both sides of it."""
    return np.exp(-(((bands - middle) / 0.08) ** 2))
