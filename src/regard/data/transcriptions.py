"""Transcribed recordings: frames of features, and labels without alignment."""

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
from regard.data.examples import Indices, Lengths
from regard.data.files import locate, read_lines
from regard.data.synthetic import Split
from regard.data.synthetic_speech import synthetic_utterance
from regard.errors import DataError, RecipeError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class TranscriptionSettings:
    """The source of the recordings: an NPZ file with a text file, or synthetic digits.

    The NPZ file holds `frames` (the concatenated frames of all recordings, frames x features) and `lengths`
    (the number of frames of each recording). Line i of `text` is the transcription of recording i: labels,
    separated by white space. A path is relative to the recipe; `NAME:FILE` is a file of the catalogue.
    `synthetic`: `size` spoken digit sequences of one `split`, made from `seed`, with added `noise`.
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
                "recordings need exactly one source", "give frames and text, or synthetic = 'digits'"
            )
        if self.size < 1 or self.noise < 0:
            raise RecipeError(
                f"size = {self.size} or noise = {self.noise} is too small", "give size 1 and noise 0 or more"
            )


@dataclass(frozen=True, kw_only=True)
class Recordings:
    """Recordings in memory: standardised frames and labels; `name` is for messages."""

    frames: tuple[Float32[np.ndarray, "_ features"], ...]
    texts: tuple[tuple[str, ...], ...]
    name: str

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def num_features(self) -> int:
        """The number of features of a frame."""
        return self.frames[0].shape[1]

    def first(self, count: int) -> "Recordings":
        """The first recordings."""
        return replace(self, frames=self.frames[:count], texts=self.texts[:count])

    def fingerprint(self) -> str:
        """A digest of frames and labels, by which a resumed run recognises its data."""
        digest = hashlib.sha256()
        for frames, text in zip(self.frames, self.texts, strict=True):
            digest.update(f"{frames.shape} {text}".encode())
            digest.update(frames.tobytes())
        return digest.hexdigest()


def read_recordings(settings: TranscriptionSettings, base: Path) -> Recordings:
    """Reads recordings from files, relative to `base`, or generates them.

    Raises:
        DataError: a file is missing, damaged or has another format, counts differ, or a number is not finite.
    """
    if settings.frames is None or settings.text is None:
        utterances = [
            synthetic_utterance(number, seed=settings.seed, split=settings.split, noise=settings.noise)
            for number in range(settings.size)
        ]
        return Recordings(
            frames=tuple(standardise(each.frames) for each in utterances),
            texts=tuple(tuple(map(str, each.digits)) for each in utterances),
            name=f"digits ({settings.split})",
        )
    path = locate(settings.frames, base)
    frames = tuple(map(standardise, read_frames(path)))
    texts = tuple(tuple(line.split()) for line in read_lines(locate(settings.text, base)))
    if len(frames) != len(texts):
        raise DataError(
            f"{settings.frames} has {len(frames):,} recordings, {settings.text} has {len(texts):,} lines",
            "give one line per recording, an empty one for silence",
        )
    return Recordings(frames=frames, texts=texts, name=settings.text)


def read_frames(path: Path) -> tuple[Float32[np.ndarray, "_ features"], ...]:
    """Reads the recordings of an NPZ file.

    Raises:
        DataError: the file is missing or damaged, its arrays do not match, or a number is not finite.
    """
    frames, lengths = read_array(path, "frames"), read_array(path, "lengths")
    if frames.ndim != 2 or frames.dtype.kind != "f" or not frames.size:
        raise DataError(
            f"{path}: frames are {shape_of(frames)} of {frames.dtype}",
            "store them as frames x features, as floating point numbers",
        )
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise DataError(
            f"{path}: lengths are {shape_of(lengths)} of {lengths.dtype}", "store one integer per recording"
        )
    if (lengths < 1).any():
        raise DataError(f"{path}: recording {int((lengths < 1).argmax()) + 1} has no frames", "remove it")
    if int(lengths.sum()) != len(frames):
        raise DataError(
            f"{path}: lengths add up to {int(lengths.sum()):,}, but there are {len(frames):,} frames",
            "each frame belongs to one recording",
        )
    recordings = np.split(frames.astype(np.float32), lengths.cumsum()[:-1])
    for number, recording in enumerate(recordings, start=1):
        if not np.isfinite(recording).all():
            raise DataError(
                f"{path}: recording {number} has numbers that are not finite", "correct or remove it"
            )
    return tuple(recordings)


def standardise(frames: Float32[np.ndarray, "frames features"]) -> Float32[np.ndarray, "frames features"]:
    """Each feature with mean 0 and standard deviation 1, which removes loudness and the channel.

    A constant feature becomes 0.
    """
    deviation = frames.std(axis=0)
    return (frames - frames.mean(axis=0)) / np.where(deviation > 1e-5, deviation, 1)


# Labels


def label_set(recordings: Recordings) -> tuple[str, ...]:
    """The classes of frames: the blank, written "", then all labels, sorted.

    Raises:
        DataError: no recording has a label.
    """
    labels = sorted({label for text in recordings.texts for label in text})
    if not labels:
        raise DataError(f"{recordings.name}: no recording has a label", "is it the right text?")
    return ("", *labels)


def label_ids(recordings: Recordings, labels: Sequence[str]) -> list[list[int]]:
    """The transcriptions as class numbers, indices into `labels`.

    Raises:
        DataError: a label does not occur in training.
    """
    numbers = {label: number for number, label in enumerate(labels)}
    for line, text in enumerate(recordings.texts, start=1):
        for label in text:
            if label not in numbers:
                raise DataError(
                    f"{recordings.name}:{line}: label {label!r} does not occur in training",
                    did_you_mean(label, labels[1:]),
                )
    return [[numbers[label] for label in text] for text in recordings.texts]


def refuse_other_features(recordings: Recordings, num_features: int) -> None:
    """Raises a DataError unless frames have as many features as the model reads."""
    found = recordings.num_features
    if found != num_features:
        raise DataError(
            f"{recordings.name}: frames have {found} features, but the model reads {num_features}",
            "compute the features as for the training data",
        )


def refuse_too_short(recordings: Recordings, factor: int) -> None:
    """Raises a DataError if a recording is too short for its labels, so that CTC has no alignment.

    A recording needs one position for each label and one for a blank between two equal labels; `factor`
    frames become one position.
    """
    for line, (frames, text) in enumerate(zip(recordings.frames, recordings.texts, strict=True), start=1):
        needed = len(text) + sum(one == other for one, other in itertools.pairwise(text))
        positions = -(-len(frames) // factor)
        if positions < needed:
            raise DataError(
                f"{recordings.name}:{line}: {len(text)} labels need {needed} positions,"
                f" but {len(frames)} frames become {positions}",
                f"lower subsampling_factor ({factor}), or remove the recording",
            )


# Batches


@dataclass(frozen=True, kw_only=True)
class TranscriptionBatch(RowBatch):
    """A padded batch of recordings and their labels."""

    frames: Float[Tensor, "batch frames features"]
    frame_lengths: Int64[Tensor, " batch"]
    labels: Int64[Tensor, "batch labels"]
    label_lengths: Int64[Tensor, " batch"]

    @property
    def inputs(self) -> tuple[Tensor, Tensor]:
        return self.frames, self.frame_lengths

    @property
    def num_targets(self) -> int:
        """The number of labels; 1 if there are none."""
        return max(1, int(self.label_lengths.sum()))


class TranscriptionExamples:
    """Recordings in memory as `Examples`, the same in every epoch."""

    def __init__(self, recordings: Recordings, labels: Sequence[str]) -> None:
        self.recordings = recordings
        self.numbers = label_ids(recordings, labels)
        self._lengths = np.array([len(frames) for frames in recordings.frames], np.int64)
        self._label_lengths = np.array([len(text) for text in recordings.texts], np.int64)

    def __len__(self) -> int:
        return len(self.recordings)

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        """The numbers of frames and of labels."""
        return self._lengths[examples], self._label_lengths[examples]

    def batch(self, examples: Indices, epoch: int) -> TranscriptionBatch:
        frames, frame_lengths = pad_frames([self.recordings.frames[number] for number in examples])
        labels, label_lengths = pad([self.numbers[number] for number in examples], 0)
        return TranscriptionBatch(
            frames=frames,
            frame_lengths=frame_lengths,
            labels=labels,
            label_lengths=label_lengths,
            lines=torch.from_numpy(np.asarray(examples, np.int64) + 1),
        )


def pad_frames(
    recordings: Sequence[Float32[np.ndarray, "_ features"]],
) -> tuple[Float[Tensor, "batch frames features"], Int64[Tensor, " batch"]]:
    """Recordings padded with zeros to the longest, and the number of frames of each."""
    lengths = np.array([len(frames) for frames in recordings], np.int64)
    padded = np.zeros((len(recordings), lengths.max(), recordings[0].shape[1]), np.float32)
    for row, frames in zip(padded, recordings, strict=True):
        row[: len(frames)] = frames
    return torch.from_numpy(padded), torch.from_numpy(lengths)
