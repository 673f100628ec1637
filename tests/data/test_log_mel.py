"""Features equal those of transformers; silence, loudness and length have the effects that they should."""

import numpy as np
import pytest
import torch

from regard.data import log_mel
from regard.data.log_mel import LogMel, mel_filters

RANDOM = np.random.default_rng(0)


def sound(samples: int) -> np.ndarray:
    found = (0.1 * RANDOM.standard_normal(samples)).astype(np.float32)
    found[samples // 2 : samples // 2 + 900] = 0
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"feature_size": 128},
        {"n_fft": 320, "hop_length": 120, "feature_size": 20},
        {"sampling_rate": 24000, "hop_length": 210, "feature_size": 9},
    ],
    ids=["80", "128", "other frames", "other rate"],
)
@pytest.mark.parametrize("length", [1, 1.5037])
def test_features_are_those_of_transformers(settings, length):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.WhisperFeatureExtractor(chunk_length=1, **settings)
    ours = LogMel(
        num_features=settings.get("feature_size", 80),
        sampling_rate=theirs.sampling_rate,
        fft_size=theirs.n_fft,
        hop_length=theirs.hop_length,
    )
    samples = sound(round(length * theirs.sampling_rate))
    expected = theirs(
        samples, sampling_rate=theirs.sampling_rate, return_tensors="pt", truncation=False, padding="longest"
    ).input_features[0]
    torch.testing.assert_close(ours(samples).T, expected, rtol=0, atol=1e-5)
    filters = mel_filters(ours.num_features, ours.fft_size, ours.sampling_rate)
    np.testing.assert_allclose(filters, theirs.mel_filters, atol=1e-7)


def test_long_sound_is_computed_in_blocks_with_the_same_frames(monkeypatch):
    samples = sound(16000)
    at_once = LogMel()(samples)
    monkeypatch.setattr(log_mel, "FRAMES_AT_ONCE", 7)
    torch.testing.assert_close(LogMel()(samples), at_once, rtol=0, atol=1e-6)


def test_a_louder_sound_moves_all_features_alike():
    samples = sound(4800)
    quiet, loud = LogMel()(samples), LogMel()(10 * samples)
    torch.testing.assert_close(loud - quiet, torch.full_like(quiet, 2 / 4), rtol=0, atol=1e-4)
    assert len(quiet) == 30


def test_the_range_of_features_is_eight_powers_of_ten():
    samples = np.zeros(4800, np.float32)
    samples[2000:2400] = sound(400)
    found = LogMel()(samples)
    assert found.max() - found.min() == pytest.approx(8 / 4)
    assert (found[0] == found.min()).all()
