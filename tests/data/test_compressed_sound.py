"""Compressed sound is read as the sound that was compressed; a cut file is refused, never filled up."""

import io
import struct
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


def mp3(*, rate=16000, channels=2, mode="VARIABLE", level=0.5):
    """An MP3 file, with a Xing header of its frames if the encoder writes one."""
    file = io.BytesIO()
    settings = {
        "format": "MP3",
        "subtype": "MPEG_LAYER_III",
        "bitrate_mode": mode,
        "compression_level": level,
    }
    with soundfile.SoundFile(file, "w", rate, channels, **settings) as written:
        written.write(TONES[:, :channels])
    return file.getvalue()


def id3(size):
    """A tag of this many bytes, as it stands before the sound."""
    return b"ID3\x04\0\0" + bytes((0, 0, size >> 7, size & 127)) + bytes(size)


@pytest.mark.parametrize("mode", ["CONSTANT", "AVERAGE", "VARIABLE"])
@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000])
@pytest.mark.parametrize(("before", "after"), [(b"", b""), (id3(3000), b""), (b"", b"TAG" + bytes(125))])
def test_an_mp3_file_is_read_whole_whatever_its_encoding_and_tags(mode, rate, before, after):
    found = sound_of(before + mp3(rate=rate, mode=mode, level=0.9) + after, "a.mp3", rate)
    assert abs(len(found) - len(TIMES)) <= 4 * 1152
    assert np.abs(found).max() < 1


def test_no_memory_of_others_is_read_where_a_header_announces_more_than_there_is():
    noise = np.random.default_rng(0).standard_normal((64000, 1)).astype(np.float32)
    sound_of(stored("FLAC", 0.3 * noise), "secret.flac", 16000)
    silence = io.BytesIO()
    with soundfile.SoundFile(
        silence,
        "w",
        16000,
        1,
        format="MP3",
        subtype="MPEG_LAYER_III",
        bitrate_mode="CONSTANT",
        compression_level=0.9,
    ) as file:
        file.write(np.zeros(16000, np.float32))
    found = sound_of(id3(8500) + silence.getvalue(), "a.mp3", 16000)
    assert len(found) < 16000 + 4 * 1152
    assert np.abs(found).max() < 1e-3


def xing(content, frames):
    """The file with another number of frames in its Xing header."""
    at = content.index(b"Xing") + 8
    return content[:at] + struct.pack(">I", frames) + content[at + 4 :]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: xing(content, 0), "samples were read, but its frames have"),
        (lambda content: xing(content, 7), "samples were read, but its frames have"),
        (lambda content: xing(content, 2**31), "of the 2,147,483,648 frames that its header counts"),
        (lambda content: content + content, "samples were read, but its frames have"),
        (lambda content: content[:1500] + b"garbage" + content[1500:], "damaged at byte"),
        (lambda content: content[: content.index(b"Xing") + 200], "too early"),
    ],
)
def test_an_mp3_file_that_would_not_be_read_whole_is_refused(change, message):
    with pytest.raises(DataError, match=message) as caught:
        sound_of(change(mp3()), "a.mp3", 16000)
    assert "ffmpeg" in caught.value.hint


def test_ogg_files_without_an_end_and_several_in_one_are_refused():
    content = stored("OGG")
    last = content.rindex(b"OggS")
    for changed, message in (
        (content[:last], "its end is missing"),
        (content + content, "several recordings, one after the other"),
        (content[:60] + b"x" + content[60:], "damaged at byte"),
    ):
        with pytest.raises(DataError, match=message):
            sound_of(changed, "a.ogg", 16000)


def test_a_flac_file_that_was_written_to_a_pipe_is_refused_by_its_reason():
    content = bytearray(stored("FLAC"))
    content[21] &= 0xF0
    content[22:26] = bytes(4)
    with pytest.raises(DataError, match="does not say how long it is"):
        sound_of(bytes(content), "a.flac", 16000)


def test_many_channels_are_refused():
    with pytest.raises(DataError, match="9 channels at 16,000 Hz are not supported"):
        sound_of(stored("OGG", np.zeros((1600, 9), np.float32)), "a.ogg", 16000)


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


def test_a_longer_sound_than_may_be_is_refused_before_it_is_decoded(monkeypatch):
    minutes = stored("FLAC", np.zeros((16000 * 600, 1), np.float32))
    assert len(minutes) < 100_000
    monkeypatch.setattr("regard.data.compressed_sound._samples", lambda file: pytest.fail("decoded"))
    with pytest.raises(DataError, match=r"a\.flac: the sound is longer than 2 seconds$"):
        sound_of(minutes, "a.flac", 16000, 2.0)
    monkeypatch.undo()
    assert len(sound_of(stored("FLAC"), "a.flac", 16000, 1.5)) == len(TIMES)


def test_a_limit_of_seconds_bounds_the_samples_of_a_high_rate_too():
    sound = stored("FLAC", np.zeros((192_000, 1), np.float32), 192_000)
    with pytest.raises(DataError, match=r"longer than 0.5 seconds at 192,000 Hz"):
        sound_of(sound, "a.flac", 16000, 2.0)
    assert len(sound_of(sound, "a.flac", 16000, 4.0)) == 16000


def test_sound_that_memory_cannot_hold_is_refused(monkeypatch):
    monkeypatch.setattr("regard.data.memory.total_memory", lambda: 2**16)
    with pytest.raises(DataError, match="half of this machine's memory"):
        sound_of(stored("FLAC"), "a.flac", 16000)


def test_without_soundfile_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(MissingExtra, match="compressed sound needs soundfile") as caught:
        sound_of(b"fLaC", "a.flac", 16000)
    assert "regard[sound]" in caught.value.hint
