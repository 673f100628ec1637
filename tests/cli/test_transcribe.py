"""What `regard transcribe` prints of a WAV file, and its errors."""

import json

import pytest
from click.testing import CliRunner

from regard.cli.transcribe import command
from regard.verbs.generation.subtitles import subtitles
from regard.verbs.transcribe import Transcriber
from tests.verbs.test_transcribe import write_wav
from tests.whisper_folder import noise, whisper

pytest.importorskip("transformers")


def test_a_text_its_segments_or_json_are_printed(tmp_path):
    whisper(tmp_path, likely_times=2.0)
    path = write_wav(tmp_path / "a.wav", noise(1.1))
    (expected,) = Transcriber(tmp_path, timestamps=True, language="de")([noise(1.1)])
    assert len(expected.segments or ()) > 1
    call = [str(path), "--model", str(tmp_path), "--language", "german"]

    def printed(*options):
        found = CliRunner().invoke(command, [*call, *options], catch_exceptions=False)
        assert found.exit_code == 0
        return found.stdout

    assert printed() == f"{expected.text}\n"
    assert json.loads(printed("--json", "--timestamps")) == {**expected.to_dict(), "line": 1}
    assert printed("--subtitles", "srt") == subtitles(expected.segments, "srt")
    both = CliRunner().invoke(command, [*call, "--subtitles", "vtt", "--json"])
    assert "--json has no subtitles" in str(both.exception)
    lines = [line.split("\t") for line in printed("--timestamps").splitlines()]
    assert lines == [
        [f"{each.start:.2f}", f"{each.end:.2f}", each.text] for each in expected.segments or () if each.text
    ]
