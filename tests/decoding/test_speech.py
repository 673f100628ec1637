"""Token by token what `generate` of transformers gives, with random weights, whatever is set."""

import pytest
import torch

from regard.decoding.speech import DecodedSpeech, SpeechDecoder, WindowStepper
from regard.decoding.transcript_settings import TranscriptSettings
from regard.recipe import read
from regard.weights.pretrained import load_pretrained
from tests.nightly import nightly_but
from tests.whisper_folder import EOS, LANGUAGES, NO_TIMES, RATE, START, extractor, noise, whisper

pytest.importorskip("transformers")
DEFAULTS = {
    "plain": {},
    "forced": {"forced_decoder_ids": [[1, None], [2, 57]]},
    "forced language": {"forced_decoder_ids": [[1, 53], [2, 57], [3, NO_TIMES]]},
    "times": {"return_timestamps": True, "max_initial_timestamp_index": 5},
    "one language": {
        "lang_to_id": None,
        "task_to_id": None,
        "is_multilingual": False,
        "forced_decoder_ids": [[1, NO_TIMES]],
    },
    "beam": {"num_beams": 3},
    "beam with times": {"num_beams": 4, "length_penalty": 0.0, "return_timestamps": True},
    "early": {"num_beams": 2, "early_stopping": True},
    "short": {"max_new_tokens": 8},
    "default length": {"max_length": None},
    "penalties": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3},
    "own language": {"language": "german", "task": "translate"},
    "sampling, which it ignores": {"do_sample": True, "temperature": 0.5, "top_k": 3},
}
CALLS = {
    "short": ({}, 1.0),
    "language": ({"language": "de"}, 1.0),
    "translation": ({"language": "yue", "task": "translate"}, 1.0),
    "task": ({"task": "transcribe", "return_timestamps": True}, 1.0),
    "long": ({"return_timestamps": True}, 1.73),
}
CALLS_WITH = {  # a translation is asked for as a language is
    **dict.fromkeys(DEFAULTS, ("short", "language", "task", "long")),
    **dict.fromkeys(("plain", "forced", "own language"), tuple(CALLS)),
    "one language": ("short", "long"),
    "default length": ("short", "task"),  # transformers then lets each window have more tokens than the last
}
SEEDS = {name: place for place, name in enumerate(DEFAULTS)}
SEEDS["default length"] = 23  # the first window has all its 20 tokens, and there are few after it
OURS = {"return_timestamps": "timestamps"}


def ours(loaded, frames, heard=None, **asked):
    settings = read(TranscriptSettings, loaded.generation)
    settings = settings.with_(**{OURS.get(name, name): value for name, value in asked.items()})
    decode = SpeechDecoder(loaded.model, settings, bos_id=START, eos_id=EOS)
    return decode(frames, heard)


def ids_of(decoded):
    return [number for segment in decoded.segments for number in segment.ids]


@pytest.mark.parametrize(
    "defaults",
    nightly_but(
        list(DEFAULTS),
        "forced language",
        "one language",
        "beam with times",
        "short",
        "default length",
        "penalties",
    ),
)
def test_tokens_are_those_of_transformers(tmp_path, defaults):
    """With every other model times are probable, so that most windows have several segments."""
    generation, seed = DEFAULTS[defaults], SEEDS[defaults]
    theirs = whisper(tmp_path, seed=seed, generation=generation, likely_times=2.0 * (seed % 2))
    loaded = load_pretrained(tmp_path).loaded
    for asked, seconds in (CALLS[name] for name in CALLS_WITH[defaults]):
        features = extractor()(
            noise(seconds, seed),
            sampling_rate=RATE,
            return_tensors="pt",
            truncation=False,
            padding="longest" if seconds > 1 else "max_length",
        ).input_features
        with torch.no_grad():
            expected = theirs.generate(features, **asked)[0].tolist()
        found = ids_of(ours(loaded, features[0].T, **asked))
        if defaults == "default length":
            found, expected = found[:20], expected[:20]
        assert found == expected, asked


def test_times_of_segments_and_the_language_are_those_of_transformers(tmp_path):
    theirs = whisper(tmp_path, seed=3, likely_times=2.0)
    loaded = load_pretrained(tmp_path).loaded
    features = extractor()(
        noise(2.5), sampling_rate=RATE, return_tensors="pt", truncation=False, padding="longest"
    ).input_features
    with torch.no_grad():
        found = theirs.generate(features, return_timestamps=True, return_segments=True)["segments"][0]
        language = int(theirs.detect_language(features[:, :, :100]))
    decoded = ours(loaded, features[0].T, timestamps=True)
    assert len(decoded.segments) == len(found) > 2
    assert decoded.language == language in LANGUAGES.values()
    for mine, other in zip(decoded.segments, found, strict=True):
        assert mine.ids == tuple(other["tokens"].tolist())
        assert (mine.start / 100, mine.end / 100) == pytest.approx(
            (float(other["start"]), float(other["end"]))
        )


def test_no_window_begins_in_the_silence_after_a_sound(tmp_path):
    whisper(tmp_path, seed=5, likely_times=2.0)
    loaded = load_pretrained(tmp_path).loaded
    frames = extractor()(noise(1.0), sampling_rate=RATE, return_tensors="pt").input_features[0].T
    whole, part = (ours(loaded, frames, heard, timestamps=True) for heard in (None, 30))
    assert 0 < len(part.segments) <= len(whole.segments)
    assert part.segments == whole.segments[: len(part.segments)]
    assert ours(loaded, frames, 0, timestamps=True).segments == []


def test_one_hypothesis_has_the_probability_that_the_model_gives_its_tokens(tmp_path):
    whisper(tmp_path, seed=1)
    loaded = load_pretrained(tmp_path).loaded
    frames = extractor()(noise(1.0), sampling_rate=RATE, return_tensors="pt").input_features[0].T
    decoded = ours(loaded, frames, language="de", max_new_tokens=4)
    ids = torch.tensor([[START, LANGUAGES["<|de|>"], 57, NO_TIMES, *ids_of(decoded)]])
    with torch.no_grad():
        each = loaded.model(frames[None], ids)[0].log_softmax(dim=1)
    expected = sum(float(each[place + 3, token]) for place, token in enumerate(ids_of(decoded)))
    assert len(decoded.segments) == 1
    assert len(ids_of(decoded)) == 4
    assert decoded.log_prob == pytest.approx(expected, abs=1e-4)


def test_a_window_is_read_when_its_stepper_is_made_and_has_no_source():
    stepper = WindowStepper.__new__(WindowStepper)
    assert stepper.multiple == 1, "it has no batch"
    with pytest.raises(ValueError, match="no source ids"):
        stepper.start(torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, dtype=torch.int64))


def test_segments_without_times_are_as_long_as_the_windows(tmp_path):
    whisper(tmp_path, seed=1, likely_times=-20.0)
    loaded = load_pretrained(tmp_path).loaded
    frames = extractor()(
        noise(1.73), sampling_rate=RATE, return_tensors="pt", truncation=False, padding="longest"
    ).input_features[0].T  # fmt: skip
    decoded = ours(loaded, frames, language="de")
    window = loaded.model.config.window_frames
    assert [each.start for each in decoded.segments] == [0, window]
    assert decoded.segments[0].end == window
    assert window < decoded.segments[1].end <= len(frames)


def test_a_recording_without_windows_has_the_probability_one():
    assert DecodedSpeech().log_prob == 0.0
