"""Transcribed recordings are read completely, refused if inconsistent, and padded without an effect."""

from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.batch import Batch
from regard.data.examples import Examples
from regard.data.transcriptions import (
    Recordings,
    TranscriptionExamples,
    TranscriptionSettings,
    label_ids,
    label_set,
    read_recordings,
    refuse_other_features,
    refuse_too_short,
    standardise,
)
from regard.errors import DataError, RecipeError

LENGTHS = np.array([5, 2, 9])
FRAMES = np.random.default_rng(0).normal(3, 2, (16, 4)).astype(np.float32)
TEXT = "b a\n\na a c\n"
FILES = TranscriptionSettings(frames="frames.npz", text="text")


def write(folder, frames=FRAMES, lengths=LENGTHS, text=TEXT) -> None:
    np.savez(folder / "frames.npz", frames=frames, lengths=lengths)
    (folder / "text").write_text(text)


@pytest.fixture
def recordings(tmp_path) -> Recordings:
    write(tmp_path)
    return read_recordings(FILES, tmp_path)


def test_recordings_are_read_with_their_transcriptions(recordings):
    assert [len(frames) for frames in recordings.frames] == [5, 2, 9]
    assert recordings.texts == (("b", "a"), (), ("a", "a", "c"))
    assert (len(recordings), recordings.num_features) == (3, 4)
    np.testing.assert_allclose(recordings.frames[2], standardise(FRAMES[7:]), rtol=1e-6)


def test_each_feature_of_a_recording_is_standardised():
    found = standardise(FRAMES)
    assert np.abs(found.mean(axis=0)).max() < 1e-6
    assert np.abs(found.std(axis=0) - 1).max() < 1e-5
    np.testing.assert_allclose(standardise(7 * FRAMES + 2), found, atol=1e-5)


def test_a_feature_that_never_changes_becomes_zero():
    assert not standardise(np.full((5, 3), 2.5, np.float32)).any()
    assert not standardise(FRAMES[:1]).any()


def test_digits_are_made_and_belong_to_their_split():
    settings = TranscriptionSettings(synthetic="digits", size=3, seed=4, split="valid")
    made, again = (read_recordings(settings, Path()) for _ in range(2))
    assert len(made) == 3
    assert made.fingerprint() == again.fingerprint()
    other = read_recordings(TranscriptionSettings(synthetic="digits", size=3, seed=4), Path())
    assert other.fingerprint() != made.fingerprint()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": "a\nb\n"}, "3 recordings, text has 2 lines"),
        ({"lengths": np.array([5, 2, 8])}, "add up to 15, but there are 16 frames"),
        ({"lengths": np.array([5, 0, 11])}, "recording 2 has no frames"),
        ({"lengths": np.array([5.0, 2.0, 9.0])}, "lengths are 3 of float64"),
        ({"frames": FRAMES[:, 0]}, "frames are 16 of float32"),
        ({"frames": FRAMES.astype(np.int32)}, "int32"),
        (
            {"frames": np.where(np.arange(16)[:, None] == 6, np.nan, FRAMES)},
            "recording 2 has numbers that are not",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, change, message):
    write(tmp_path, **change)
    with pytest.raises(DataError, match=message) as refusal:
        read_recordings(FILES, tmp_path)
    assert refusal.value.hint


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"frames": "a"},
        {"text": "a"},
        {"frames": "a", "text": "b", "synthetic": "digits"},
        {"text": "a", "synthetic": "digits"},
    ],
)
def test_recordings_come_from_one_place(settings):
    with pytest.raises(RecipeError, match="one source"):
        TranscriptionSettings(**settings)


def test_making_nothing_is_refused():
    with pytest.raises(RecipeError, match="is too small"):
        TranscriptionSettings(synthetic="digits", size=0)


def test_the_blank_comes_first_and_has_no_name(recordings):
    labels = label_set(recordings)
    assert labels == ("", "a", "b", "c")
    assert label_ids(recordings, labels) == [[2, 1], [], [1, 1, 3]]


def test_a_label_that_training_never_met_is_refused_with_its_line(recordings):
    with pytest.raises(DataError, match="text:3: label 'c' does not occur"):
        label_ids(recordings, ("", "a", "b"))


def test_recordings_without_labels_are_refused(tmp_path):
    write(tmp_path, text="\n\n\n")
    with pytest.raises(DataError, match="no recording has a label"):
        label_set(read_recordings(FILES, tmp_path))


def test_labels_without_an_alignment_are_refused(recordings):
    """The third recording has three labels, two of them equal: it needs four positions."""
    refuse_too_short(recordings, 2)
    with pytest.raises(
        DataError, match="text:3: 3 labels need 4 positions, but 9 frames become 3"
    ) as refusal:
        refuse_too_short(recordings, 3)
    assert "subsampling_factor (3)" in refusal.value.hint


def test_other_features_are_refused(recordings):
    refuse_other_features(recordings, 4)
    with pytest.raises(DataError, match="have 4 features, but the model reads 80"):
        refuse_other_features(recordings, 80)


def test_a_batch_has_the_interface_of_training(recordings):
    examples = TranscriptionExamples(recordings, label_set(recordings))
    batch = examples.batch(np.array([2, 1, 0]), 0)
    assert isinstance(examples, Examples)
    assert isinstance(batch, Batch)
    assert batch.frames.shape == (3, 9, 4)
    assert batch.frame_lengths.tolist() == [9, 2, 5]
    assert batch.labels.tolist() == [[1, 1, 3], [0, 0, 0], [2, 1, 0]]
    assert batch.label_lengths.tolist() == [3, 0, 2]
    assert batch.lines.tolist() == [3, 2, 1]
    assert batch.num_targets == 5
    assert not batch.frames[1, 2:].any()
    assert torch.equal(batch.frames[2, :5], torch.from_numpy(recordings.frames[0]))
    assert batch.to("meta").frames.device.type == "meta"


def test_lengths_are_frames_and_labels(recordings):
    examples = TranscriptionExamples(recordings, label_set(recordings))
    frames, labels = examples.lengths(np.array([2, 0]), 0)
    assert (frames.tolist(), labels.tolist()) == ([9, 5], [3, 2])


def test_silence_alone_still_counts_as_something(recordings):
    examples = TranscriptionExamples(recordings, label_set(recordings))
    assert examples.batch(np.array([1]), 0).num_targets == 1
