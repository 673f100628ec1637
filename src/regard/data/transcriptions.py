"""Recordings and what is said in them: frames of features, labels without times."""

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from regard.data.arrays import read_array, shape_of
from regard.data.batch import RowBatch, pad
from regard.data.corpus import locate, read_lines
from regard.data.examples import Numbers
from regard.data.synthetic import Split
from regard.data.synthetic_speech import spoken_digits
from regard.errors import DataError, RecipeError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class TranscriptionSettings:
    """Where recordings are: an NPZ file and a text, or digits made on the fly.

    The NPZ file holds `frames`, the frames of all recordings one after the other, each a row of as many
    numbers, and `lengths`, how many frames each recording has. Line i of `text` is what is said in
    recording i: labels, set apart by white space. A path is relative to the recipe; `NAME:FILE` is a file
    of the catalogue. `synthetic`: `size` rows of digits of one `split`, made by `seed`; `noise` lies over
    each number of each frame.
    """

    frames: str | None = None
    text: str | None = None
    synthetic: Literal["digits"] | None = None
    size: int = 1000
    seed: int = 1
    split: Split = "train"
    noise: float = 0.25

    def __post_init__(self) -> None:
        from_files = self.frames is not None and self.text is not None
        if from_files == (self.synthetic is not None) or (self.frames is None) != (self.text is None):
            raise RecipeError(
                "recordings need one place to come from", "give frames and text, or synthetic = 'digits'"
            )
        if self.size < 1 or self.noise < 0:
            raise RecipeError(
                f"size = {self.size} and noise = {self.noise} make nothing", "size 1, noise 0 or more"
            )


@dataclass(frozen=True, kw_only=True)
class Recordings:
    """Recordings in memory: frames standardised, labels as they are written; `name` is for messages."""

    frames: tuple[Float32[np.ndarray, "_ features"], ...]
    texts: tuple[tuple[str, ...], ...]
    name: str

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def num_features(self) -> int:
        return self.frames[0].shape[1]

    def first(self, count: int) -> "Recordings":
        return replace(self, frames=self.frames[:count], texts=self.texts[:count])

    def fingerprint(self) -> str:
        """Of all that is said and how it sounds, so that a run finds the same again."""
        digest = hashlib.sha256()
        for frames, text in zip(self.frames, self.texts, strict=True):
            digest.update(f"{frames.shape} {text}".encode())
            digest.update(frames.tobytes())
        return digest.hexdigest()


def read_recordings(settings: TranscriptionSettings, base: Path) -> Recordings:
    """Recordings from files, relative to `base`, or made.

    Raises:
        DataError: a file is missing, damaged or of another kind, counts differ, or a number is not finite.
    """
    if settings.frames is None or settings.text is None:
        said = [
            spoken_digits(number, seed=settings.seed, split=settings.split, noise=settings.noise)
            for number in range(settings.size)
        ]
        return Recordings(
            frames=tuple(standardised(each.frames) for each in said),
            texts=tuple(tuple(map(str, each.digits)) for each in said),
            name=f"digits ({settings.split})",
        )
    path = locate(settings.frames, base)
    frames = tuple(map(standardised, read_frames(path)))
    texts = tuple(tuple(line.split()) for line in read_lines(locate(settings.text, base)))
    if len(frames) != len(texts):
        raise DataError(
            f"{settings.frames} has {len(frames):,} recordings, {settings.text} has {len(texts):,} lines",
            "each recording needs a line; one in which nothing is said has an empty one",
        )
    return Recordings(frames=frames, texts=texts, name=settings.text)


def read_frames(path: Path) -> tuple[Float32[np.ndarray, "_ features"], ...]:
    """The recordings of an NPZ file, as they stand there.

    Raises:
        DataError: the file is missing or damaged, its arrays do not fit, or a number is not finite.
    """
    frames, lengths = read_array(path, "frames"), read_array(path, "lengths")
    if frames.ndim != 2 or frames.dtype.kind != "f" or not frames.size:
        raise DataError(
            f"{path}: frames are {shape_of(frames)} of {frames.dtype}",
            "frames x features, as floating point numbers",
        )
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise DataError(
            f"{path}: lengths are {shape_of(lengths)} of {lengths.dtype}", "one integer a recording"
        )
    if (lengths < 1).any():
        raise DataError(f"{path}: recording {int((lengths < 1).argmax()) + 1} has no frames", "leave it out")
    if int(lengths.sum()) != len(frames):
        raise DataError(
            f"{path}: lengths add up to {int(lengths.sum()):,}, but there are {len(frames):,} frames",
            "each frame belongs to one recording",
        )
    recordings = np.split(frames.astype(np.float32), lengths.cumsum()[:-1])
    for number, recording in enumerate(recordings, start=1):
        if not np.isfinite(recording).all():
            raise DataError(
                f"{path}: recording {number} has numbers that are not finite", "mend or leave it out"
            )
    return tuple(recordings)


def standardised(frames: Float32[np.ndarray, "frames features"]) -> Float32[np.ndarray, "frames features"]:
    """Each feature of a recording with mean 0 and deviation 1: how loud it was, and through what, goes.

    Of a feature that never changes only the mean is taken off.
    """
    deviation = frames.std(axis=0)
    return (frames - frames.mean(axis=0)) / np.where(deviation > 1e-5, deviation, 1)


# Labels


def labels_of(recordings: Recordings) -> tuple[str, ...]:
    """The classes of frames: first the blank, which has no name, then all labels in the order of characters.

    Raises:
        DataError: nothing is said in any recording.
    """
    labels = sorted({label for text in recordings.texts for label in text})
    if not labels:
        raise DataError(f"{recordings.name}: no recording says anything", "is it the right text?")
    return ("", *labels)


def numbered(recordings: Recordings, labels: Sequence[str]) -> list[list[int]]:
    """What is said, as the numbers of `labels`.

    Raises:
        DataError: a label that training never met.
    """
    numbers = {label: number for number, label in enumerate(labels)}
    for line, text in enumerate(recordings.texts, start=1):
        for label in text:
            if label not in numbers:
                raise DataError(
                    f"{recordings.name}:{line}: label {label!r} was never seen in training",
                    did_you_mean(label, labels[1:]),
                )
    return [[numbers[label] for label in text] for text in recordings.texts]


def refuse_other_features(recordings: Recordings, num_features: int) -> None:
    """Frames have as many features as a model reads.

    Raises:
        DataError: they have not.
    """
    found = recordings.num_features
    if found != num_features:
        raise DataError(
            f"{recordings.name}: frames have {found} features, the model reads {num_features}",
            "make the features of all recordings alike",
        )


def refuse_too_short(recordings: Recordings, factor: int) -> None:
    """Each recording has a position for each of its labels, and for a blank between two that are alike.

    `factor` frames become one position.

    Raises:
        DataError: one has too few, so that no alignment says its labels.
    """
    for line, (frames, text) in enumerate(zip(recordings.frames, recordings.texts, strict=True), start=1):
        needed = len(text) + sum(one == other for one, other in itertools.pairwise(text))
        there = -(-len(frames) // factor)
        if there < needed:
            raise DataError(
                f"{recordings.name}:{line}: {len(text)} labels need {needed} positions,"
                f" but {len(frames)} frames become {there}",
                f"lower subsampling_factor ({factor}), or leave the recording out",
            )


# Batches


@dataclass(frozen=True, kw_only=True)
class TranscriptionBatch(RowBatch):
    """Recordings side by side and the numbers of their labels; what stands beyond a length is padding."""

    frames: Float[Tensor, "batch frames features"]
    frame_lengths: Int64[Tensor, " batch"]
    labels: Int64[Tensor, "batch labels"]
    label_lengths: Int64[Tensor, " batch"]

    @property
    def inputs(self) -> tuple[Tensor, Tensor]:
        return self.frames, self.frame_lengths

    @property
    def num_targets(self) -> int:
        """Labels; of recordings that say nothing at all, one."""
        return max(1, int(self.label_lengths.sum()))


class TranscriptionExamples:
    """Recordings in memory as `Examples`; they are the same in every epoch."""

    def __init__(self, recordings: Recordings, labels: Sequence[str]) -> None:
        self.recordings = recordings
        self.numbers = numbered(recordings, labels)
        self._lengths = np.array([len(frames) for frames in recordings.frames], np.int64)
        self._label_lengths = np.array([len(text) for text in recordings.texts], np.int64)

    def __len__(self) -> int:
        return len(self.recordings)

    def lengths(self, examples: Numbers, epoch: int) -> tuple[Numbers, Numbers]:
        """Frames, and labels."""
        return self._lengths[examples], self._label_lengths[examples]

    def batch(self, examples: Numbers, epoch: int) -> TranscriptionBatch:
        frames, frame_lengths = side_by_side([self.recordings.frames[number] for number in examples])
        labels, label_lengths = pad([self.numbers[number] for number in examples], 0)
        return TranscriptionBatch(
            frames=frames,
            frame_lengths=frame_lengths,
            labels=labels,
            label_lengths=label_lengths,
            lines=torch.from_numpy(np.asarray(examples, np.int64) + 1),
        )


def side_by_side(
    recordings: Sequence[Float32[np.ndarray, "_ features"]],
) -> tuple[Float[Tensor, "batch frames features"], Int64[Tensor, " batch"]]:
    """Recordings filled up with zeros to the longest, and how many frames each has."""
    lengths = np.array([len(frames) for frames in recordings], np.int64)
    padded = np.zeros((len(recordings), lengths.max(), recordings[0].shape[1]), np.float32)
    for row, frames in zip(padded, recordings, strict=True):
        row[: len(frames)] = frames
    return torch.from_numpy(padded), torch.from_numpy(lengths)
