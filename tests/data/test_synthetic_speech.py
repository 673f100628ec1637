"""Synthetic speech: reproducible, varied, with disjoint splits, and long enough for CTC."""

import itertools

import numpy as np
import pytest

from regard.data.synthetic import split_of
from regard.data.synthetic_speech import DIGIT_PHONEMES, FEATURES, SOUNDS, synthetic_utterance
from regard.errors import DataError

UTTERANCES = [synthetic_utterance(number, seed=5) for number in range(60)]


def test_a_number_and_a_seed_make_an_utterance():
    again = synthetic_utterance(7, seed=5)
    assert again.digits == UTTERANCES[7].digits
    assert np.array_equal(again.frames, UTTERANCES[7].frames)
    assert not np.array_equal(synthetic_utterance(7, seed=6).frames[:20], UTTERANCES[7].frames[:20])


def test_utterances_differ_and_all_digits_occur():
    assert len({utterance.digits for utterance in UTTERANCES}) > 55
    assert {digit for utterance in UTTERANCES for digit in utterance.digits} == set(range(10))
    assert {len(utterance.digits) for utterance in UTTERANCES} == set(range(3, 9))


def test_no_digit_sounds_twice_the_same():
    """The same digits in another utterance have other frames."""
    lone = [synthetic_utterance(number, seed=1, shortest=1, longest=1) for number in range(9)]
    same = [(a, b) for a, b in itertools.combinations(lone, 2) if a.digits == b.digits]
    assert same
    for one, other in same:
        length = min(len(one.frames), len(other.frames))
        assert np.abs(one.frames[:length] - other.frames[:length]).mean() > 0.1


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_an_utterance_belongs_to_one_split(split):
    for number in range(5):
        utterance = synthetic_utterance(number, seed=5, split=split)
        assert split_of(" ".join(map(str, utterance.digits))) == split


def test_a_split_without_any_row_is_refused():
    assert "test" not in {split_of(str(digit)) for digit in range(10)}
    with pytest.raises(DataError, match="fall into test"):
        synthetic_utterance(0, seed=1, split="test", shortest=1, longest=1)


def test_frames_are_enough_for_every_label_and_the_blanks_between():
    for utterance in UTTERANCES:
        repeats = sum(one == other for one, other in itertools.pairwise(utterance.digits))
        assert -(-len(utterance.frames) // 4) >= len(utterance.digits) + repeats
        assert utterance.frames.shape[1] == FEATURES
        assert utterance.frames.dtype == np.float32
        assert np.isfinite(utterance.frames).all()


def test_noise_lies_over_everything_or_nothing():
    clean, noisy = (synthetic_utterance(3, seed=5, noise=noise) for noise in (0.0, 0.5))
    assert clean.digits == noisy.digits
    rest = (noisy.frames - clean.frames).ravel()
    assert abs(rest.mean()) < 0.05
    assert abs(rest.std() - 0.5) < 0.05
    assert not clean.frames[0].any()


def test_every_digit_is_made_of_known_sounds_and_no_two_are_alike():
    assert len(set(DIGIT_PHONEMES)) == 10
    assert {sound for digit in DIGIT_PHONEMES for sound in digit.split()} == set(SOUNDS)
