"""Whisper transcribes WAV files and arrays of samples; times, languages and what is refused."""

import dataclasses
import json

import numpy as np
import pytest
import torch

import regard
from regard.errors import ConfigError, DataError, FolderError, UserError
from regard.models.build import build_model
from regard.models.conformer import ConformerConfig
from regard.verbs.transcribe import Transcriber, output_lines, transcribe
from regard.weights.model_folder import LoadedModel
from tests.data.test_sound import wav
from tests.whisper_folder import RATE, TEXT, change, extractor, noise, whisper

transformers = pytest.importorskip("transformers")


def write_wav(path, samples, **settings):
    return wav(path, 3, 32, samples.astype("<f4").tobytes(), channels=1, **settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("whisper")
    whisper(path, seed=0, likely_times=2.0)
    return path


@pytest.fixture(scope="module")
def theirs(folder):
    return transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()


def text_of(theirs, folder, samples, **asked):
    """What transformers says, as text without special tokens and times."""
    features = extractor()(
        samples,
        sampling_rate=RATE,
        return_tensors="pt",
        truncation=False,
        padding="longest" if len(samples) > RATE else "max_length",
    ).input_features
    with torch.no_grad():
        ids = theirs.generate(features, **asked)[0].tolist()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    return tokenizer.decode([each for each in ids if each < TEXT]).strip()


@pytest.mark.parametrize(
    "asked",
    [
        {},
        pytest.param({"language": "german"}, marks=pytest.mark.nightly),
        {"language": "de", "task": "translate"},
    ],
    ids=str,
)
def test_the_text_of_a_file_is_that_of_transformers(tmp_path, folder, theirs, asked):
    samples = noise(1.0)
    path = write_wav(tmp_path / "a.wav", samples)
    expected = text_of(theirs, folder, samples, **asked)
    assert expected
    assert transcribe(path, model=folder, **asked) == [expected]
    assert transcribe([samples.astype(np.float64)], model=folder, **asked) == [expected]


def test_a_long_file_is_read_window_by_window_to_its_end(tmp_path, folder, theirs):
    samples = noise(2.77)
    expected = text_of(theirs, folder, samples, return_timestamps=True)
    transcriber = Transcriber(folder)
    assert [each.text for each in transcriber.file(write_wav(tmp_path / "a.wav", samples))] == [expected]
    loaded = regard.load(folder)
    loaded.generation.pop("no_timestamps_id")
    with pytest.raises(DataError, match=r"2 has 16,001 samples, but the model reads 16,000") as caught:
        transcribe([samples[:100], samples[:16001]], model=loaded)
    assert "shorter" in caught.value.hint


def test_a_converted_model_transcribes_alike_and_so_does_the_model_that_is_converted_back(tmp_path, folder):
    samples = noise(1.9)
    expected = Transcriber(folder, timestamps=True)([samples])
    regard.convert(folder, out=tmp_path / "ours")
    assert Transcriber(tmp_path / "ours", timestamps=True)([samples]) == expected
    regard.convert(tmp_path / "ours", out=tmp_path / "hf", to="hf")
    assert Transcriber(tmp_path / "hf", timestamps=True)([samples]) == expected
    again = transformers.WhisperForConditionalGeneration.from_pretrained(tmp_path / "hf").eval()
    assert text_of(again, folder, samples, return_timestamps=True) == expected[0].text


def test_lines_are_texts_segments_or_json(folder):
    transcriber = Transcriber(folder, timestamps=True, language="de")
    (found,) = transcriber([noise(2.0)])
    assert found.segments is not None
    table = json.loads(output_lines(found, as_json=True))
    assert table["language"] == "de"
    assert table["text"] == found.text == output_lines(found).removesuffix("\n")
    assert [each["text"] for each in table["segments"]] == [each.text for each in found.segments]
    assert table["segments"][0].keys() == {"start", "end", "text"}
    lines = output_lines(found, timestamps=True).splitlines()
    assert len(lines) == len([each for each in found.segments if each.text]) > 1
    starts = [float(line.split("\t")[0]) for line in lines]
    assert starts == sorted(starts)
    assert 0 <= starts[0] < starts[-1] <= 2
    (short,) = Transcriber(folder)([noise(0.37)])
    assert max(each.end for each in short.segments or ()) == pytest.approx(0.37)


def test_a_transcript_depends_on_its_recording_alone(folder):
    recordings = [noise(seconds, seed) for seed, seconds in enumerate((0.3, 1.7))]
    transcriber = Transcriber(folder, beam_size=3)
    together = transcriber(recordings)
    for number, recording in enumerate(recordings):
        (alone,) = transcriber([recording])
        assert (alone.text, alone.log_prob) == (together[number].text, together[number].log_prob)
        assert together[number].line == number + 1


def test_special_tokens_are_not_printed_even_where_the_model_generates_them(tmp_path):
    whisper(tmp_path, seed=0, generation={"suppress_tokens": None})
    for seed in range(2):
        (text,) = transcribe([noise(1.0, seed)], model=tmp_path)
        assert "<|" not in text


def test_what_the_model_does_not_have_is_refused_with_what_it_has(tmp_path, folder):
    for asked, error, message, hint in (
        ({"language": "klingon"}, ConfigError, "no language 'klingon'", "known: de, en, yue"),
        ({"language": "French"}, ConfigError, "no language 'fr'", "known: de, en, yue"),
    ):
        with pytest.raises(error, match=message) as caught:
            transcribe([noise(0.5)], model=folder, **asked)
        assert hint in caught.value.hint
    generation = {"lang_to_id": None, "task_to_id": None, "is_multilingual": False}
    whisper(tmp_path, generation={**generation, "no_timestamps_token_id": None})
    for asked, message in (
        ({"language": "de"}, "language = 'de', but this model has one language only"),
        ({"task": "translate"}, "task = 'translate', but this model has one task only"),
        ({"timestamps": True}, "timestamps are set, but the model has no tokens for them"),
    ):
        with pytest.raises(ConfigError, match=message):
            transcribe([noise(0.5)], model=tmp_path, **asked)


def test_what_is_no_sound_is_refused(tmp_path, folder):
    for samples, message in (
        (np.zeros(0, np.float32), "recording 1 is 0 of float32"),
        (np.zeros((4, 2), np.float32), "recording 1 is 4 x 2 of float32"),
        (np.full(9, np.nan, np.float32), "recording 1 has samples that are not finite"),
    ):
        with pytest.raises(DataError, match=message):
            transcribe([samples], model=folder)
    (tmp_path / "a.npz").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"a.npz: not a WAV, FLAC, MP3 or Ogg file"):
        transcribe(tmp_path / "a.npz", model=folder)


def test_a_conformer_reads_frames_and_has_no_languages(tmp_path):
    config = ConformerConfig.from_table({"preset": "tiny"}, num_features=4, num_labels=3)
    loaded = LoadedModel(
        model=build_model(config, seed=0).eval(),
        config=config,
        tokenizer_pair=None,
        labels=("", "a", "b"),
        generation={},
        path=tmp_path,
    )
    assert len(transcribe([np.ones((9, 4), np.float32)], model=loaded)) == 1
    with pytest.raises(UserError, match="a conformer has no languages, tasks and timestamps"):
        transcribe([np.ones((9, 4), np.float32)], model=loaded, language="de")
    with pytest.raises(DataError, match="recording 1 has 9 samples"):
        transcribe([np.ones(9, np.float32)], model=loaded)
    with pytest.raises(DataError, match=r"a.wav: this model reads frames of features"):
        transcribe(write_wav(tmp_path / "a.wav", noise(0.1)), model=loaded)


def test_a_folder_whose_settings_do_not_fit_is_refused(tmp_path, folder):
    whisper(tmp_path)
    loaded = regard.load(tmp_path)
    for name, value in (("suppressed_ids", [5000]), ("languages", {"de": 5000}), ("prompt", [5000])):
        damaged = dataclasses.replace(loaded, generation={**loaded.generation, name: value})
        with pytest.raises(FolderError, match=f"{name} has 5000, which is not a token"):
            transcribe([noise(0.5)], model=damaged)
    change(tmp_path, "generation_config.json", no_speech_threshold=0.6)
    with pytest.raises(FolderError, match=r"no_speech_threshold = 0.6 is not supported"):
        transcribe([noise(0.5)], model=tmp_path)
