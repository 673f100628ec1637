"""Samples of a WAV file are read as they are, channels averaged, other rates resampled; else refused."""

import struct
from pathlib import Path

import numpy as np
import pytest

from regard.data.sound import CONVERT, read_sound, resampled
from regard.errors import DataError

SAMPLES = np.array([[0.0, 0.5], [-0.25, -0.5], [0.75, 0.25]], np.float32)
STORED = {  # code, bits -> the bytes of SAMPLES
    (1, 8): (SAMPLES * 128 + 128).astype(np.uint8).tobytes(),
    (1, 16): (SAMPLES * 2**15).astype("<i2").tobytes(),
    (1, 24): b"".join(int(each * 2**23).to_bytes(3, "little", signed=True) for each in SAMPLES.flatten()),
    (1, 32): (SAMPLES * 2**31).astype("<i4").tobytes(),
    (3, 32): SAMPLES.astype("<f4").tobytes(),
    (3, 64): SAMPLES.astype("<f8").tobytes(),
}


def wav(path: Path, code=1, bits=16, data=STORED[1, 16], *, channels=2, rate=16000, size=None, before=b""):
    frame = channels * bits // 8
    header = struct.pack("<HHIIHH", code, channels, rate, rate * frame, frame, bits)
    if code == 0xFFFE:
        header += struct.pack("<HHIH", 22, bits, 3, 1) + bytes(14)
    parts = b"WAVE" + before + b"fmt " + struct.pack("<I", len(header)) + header
    parts += b"data" + struct.pack("<I", len(data) if size is None else size) + data
    path.write_bytes(b"RIFF" + struct.pack("<I", len(parts)) + parts)
    return path


@pytest.mark.parametrize(("code", "bits"), STORED)
def test_samples_are_the_means_of_their_channels(tmp_path, code, bits):
    found = read_sound(wav(tmp_path / "a.wav", code, bits, STORED[code, bits]), 16000)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, SAMPLES.mean(axis=1), atol=1e-6)


def test_the_format_of_an_extensible_file_is_at_its_end(tmp_path):
    found = read_sound(wav(tmp_path / "a.wav", code=0xFFFE), 16000)
    np.testing.assert_allclose(found, SAMPLES.mean(axis=1), atol=1e-6)


def test_other_parts_of_a_file_are_left_out_and_a_piped_file_has_no_size(tmp_path):
    odd = b"LIST" + struct.pack("<I", 3) + b"abc\0"
    for settings in ({"before": odd}, {"size": 2**32 - 1}):
        found = read_sound(wav(tmp_path / "a.wav", **settings), 16000)
        np.testing.assert_allclose(found, SAMPLES.mean(axis=1), atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"code": 85}, "samples of format 85 with 16 bits are not supported"),
        ({"bits": 12}, "samples of format 1 with 12 bits are not supported"),
        ({"channels": 0}, "0 channels at 16,000 Hz are not supported"),
        ({"rate": 3}, "2 channels at 3 Hz are not supported"),
        ({"size": 100}, "the sound ends 88 bytes too early"),
        ({"data": b""}, "the file has no sound"),
        ({"code": 3, "bits": 32, "data": struct.pack("<2f", 1, float("nan"))}, "not a finite number"),
        ({"rate": 15999}, "15,999 Hz cannot be resampled to 16,000 Hz"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_line(tmp_path, settings, message):
    with pytest.raises(DataError, match=message) as caught:
        read_sound(wav(tmp_path / "a.wav", **settings), 16000)
    assert "a.wav" in caught.value.message
    assert "\n" not in caught.value.message


def test_a_file_that_is_no_wav_file_is_refused_with_a_command(tmp_path):
    (tmp_path / "a.m4a").write_bytes(b"\0\0\0\x20ftypM4A ")
    for path, message, hint in (
        (tmp_path / "a.m4a", "not a WAV, FLAC, MP3 or Ogg file", CONVERT),
        (tmp_path / "none.wav", "no such file", "path"),
        (tmp_path, "is a folder", "name the file"),
    ):
        with pytest.raises(DataError, match=message) as caught:
            read_sound(path, 16000)
        assert hint in caught.value.hint


@pytest.mark.parametrize(("old", "new"), [(44100, 16000), (48000, 16000), (8000, 16000), (11025, 16000)])
def test_a_tone_is_the_same_tone_at_another_rate(old, new):
    """Tones that the lower rate has stay as they are, those that it lacks vanish; no sample is lost."""
    times = np.arange(old // 2) / old
    for tone in (200.0, 0.43 * min(old, new), 0.55 * min(old, new)):
        found = resampled(np.sin(2 * np.pi * tone * times).astype(np.float32), old, new)
        assert len(found) == -(-len(times) * new // old)
        expected = np.sin(2 * np.pi * tone * np.arange(len(found)) / new)
        if tone > new / 2:
            expected[:] = 0
        if tone < old / 2:
            np.testing.assert_allclose(found[400:-400], expected[400:-400], atol=1e-3)


def test_an_equal_rate_changes_nothing():
    assert resampled(SAMPLES[:, 0], 16000, 16000) is not None
    assert (resampled(SAMPLES[:, 0], 16000, 16000) == SAMPLES[:, 0]).all()
