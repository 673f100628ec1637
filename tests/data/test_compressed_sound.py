"""Compressed sound is read as the sound that was compressed; a cut file is refused, never filled up."""

import io
import sys

import numpy as np
import pytest
import soundfile

from regard.data.compressed_sound import is_compressed
from regard.data.sound import CONVERT, read_sound, sound_of
from regard.errors import DataError, MissingExtra

TIMES = np.arange(24000) / 16000
TONES = np.stack([0.4 * np.sin(2 * np.pi * tone * TIMES) for tone in (440, 1000)], axis=1).astype(np.float32)
LOSSY = 0.06  # of a sample
FORMATS = {"FLAC": ("PCM_16", 1e-4), "MP3": ("MPEG_LAYER_III", LOSSY), "OGG": ("VORBIS", LOSSY)}


def stored(name, sound=TONES, rate=16000):
    file = io.BytesIO()
    soundfile.write(file, sound, rate, format=name, subtype=FORMATS[name][0])
    return file.getvalue()


@pytest.mark.parametrize("name", FORMATS)
def test_a_compressed_file_has_the_sound_that_was_compressed(tmp_path, name):
    (tmp_path / "a.sound").write_bytes(stored(name))
    found = read_sound(tmp_path / "a.sound", 16000)
    assert found.dtype == np.float32
    assert len(found) == len(TIMES)
    inner = slice(1000, -1000)  # a lossy format rings at the ends
    np.testing.assert_allclose(found[inner], TONES.mean(axis=1)[inner], atol=FORMATS[name][1])


def test_opus_is_read_too():
    file = io.BytesIO()
    soundfile.write(file, TONES, 16000, format="OGG", subtype="OPUS")
    found = sound_of(file.getvalue(), "a.opus", 16000)
    assert np.corrcoef(found[1000:-1000], TONES.mean(axis=1)[1000:-1000])[0, 1] > 0.99


def test_another_rate_is_resampled():
    found = sound_of(stored("FLAC", rate=48000), "a.flac", 16000)
    assert len(found) == len(TIMES) // 3


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("share", [0.5, 0.9, 0.999])
def test_a_cut_file_is_refused_in_a_line(name, share):
    content = stored(name)
    with pytest.raises(DataError, match=r"^a\.sound: ") as caught:
        sound_of(content[: int(share * len(content))], "a.sound", 16000)
    assert "\n" not in caught.value.message
    assert "copy the file again" in caught.value.hint


def test_an_mp3_file_with_tags_is_read_and_its_cut_noticed():
    size = 300
    tag = b"ID3\x04\0\0" + bytes((0, 0, size >> 7, size & 127)) + bytes(size)
    content = tag + stored("MP3")
    assert len(sound_of(content, "a.mp3", 16000)) == len(TIMES)
    with pytest.raises(DataError, match="ends 9 bytes too early"):
        sound_of(content[:-9], "a.mp3", 16000)


def test_a_damaged_file_is_refused():
    content = bytearray(stored("FLAC"))
    content[len(content) // 2 : len(content) // 2 + 400] = bytes(400)
    with pytest.raises(DataError, match=r"a\.flac: not readable"):
        sound_of(bytes(content), "a.flac", 16000)


@pytest.mark.parametrize(
    "content",
    [
        b"\0\0\0\x20ftypM4A ",
        b"\x1aE\xdf\xa3webm",
        b"\xff\xf1\x50\x80 aac",
        b"\xff\xd8\xff jpeg",
        b"",
        b"\xff",
    ],
)
def test_other_formats_are_refused_with_a_command(content):
    assert not is_compressed(content)
    with pytest.raises(DataError, match="not a WAV, FLAC, MP3 or Ogg file") as caught:
        sound_of(content, "a.m4a", 16000)
    assert caught.value.hint == CONVERT


def test_a_longer_sound_than_may_be_is_refused_before_it_is_all_decoded(monkeypatch):
    monkeypatch.setattr("regard.data.compressed_sound.BLOCK", 1600)
    hour = stored("FLAC", np.zeros((16000 * 600, 1), np.float32))
    assert len(hour) < 100_000
    checked = []
    monkeypatch.setattr("regard.data.compressed_sound.refuse_beyond_memory", lambda *_: checked.append(1))
    with pytest.raises(DataError, match=r"a\.flac: the sound is longer than 2 seconds"):
        sound_of(hour, "a.flac", 16000, 2.0)
    assert len(checked) <= 20
    assert len(sound_of(stored("FLAC"), "a.flac", 16000, 1.5)) == len(TIMES)


def test_sound_that_memory_cannot_hold_is_refused(monkeypatch):
    monkeypatch.setattr("regard.data.memory.total_memory", lambda: 2**22)
    with pytest.raises(DataError, match="half of this machine's memory"):
        sound_of(stored("FLAC"), "a.flac", 16000)


def test_without_soundfile_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(MissingExtra, match="compressed sound needs soundfile") as caught:
        sound_of(b"fLaC", "a.flac", 16000)
    assert "regard[sound]" in caught.value.hint
