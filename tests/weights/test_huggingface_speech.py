"""Decoding defaults of Whisper become ours and theirs again; what is not reproduced is refused by name."""

import pytest

from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.decoding.transcript_settings import TranscriptSettings
from regard.errors import ConfigError, FolderError
from regard.models.speech_to_text import DETECTED, SpeechToTextConfig
from regard.recipe import read
from regard.weights.huggingface_speech import read_speech_decoding, write_speech_decoding
from regard.weights.pretrained import load_pretrained
from tests.whisper_folder import EOS, GENERATION, LANGUAGES, NO_TIMES, START, TASKS, VOCAB, whisper

CONFIG = {"decoder_start_token_id": START, "eos_token_id": EOS, "pad_token_id": EOS, "bos_token_id": EOS}
MODEL = SpeechToTextConfig(vocab_size=VOCAB)
OURS = {
    "beam_size": 1,
    "max_length": 33,
    "languages": {"en": 52, "de": 53, "yue": 54},
    "tasks": TASKS,
    "no_timestamps_id": NO_TIMES,
    "suppressed_ids": [1, 2, START, 58, 59, 60],
    "first_suppressed_ids": [7, EOS],
}


def ours(own, config=CONFIG):
    found = read_speech_decoding(config, own, ("config.json", "generation_config.json"), MODEL, None)
    read(TranscriptSettings, found.settings)  # all is possible
    return found


def settings(**changes):
    return read(TranscriptSettings, {**OURS, **changes})


def test_defaults_are_ours():
    assert ours(GENERATION).settings == OURS
    assert ours(GENERATION).unused == ()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"forced_decoder_ids": [[1, None], [2, 57]]}, {"prompt": [DETECTED, 57]}),
        ({"language": "<|de|>", "task": "translate"}, {"language": "de", "task": "translate"}),
        ({"language": "German"}, {"language": "de"}),
        ({"return_timestamps": True}, {"timestamps": True}),
        ({"max_initial_timestamp_index": 0}, {"latest_first_timestamp": 0}),
        ({"max_length": None}, {"max_length": 20}),
        ({"max_new_tokens": 5}, {"max_length": 5}),
        ({"begin_suppress_tokens": [220, 7]}, {"first_suppressed_ids": [7]}),
        ({"suppress_tokens": [0, VOCAB - 1, VOCAB]}, {"suppressed_ids": [0, VOCAB - 1]}),
        ({"no_timestamps_token_id": VOCAB - 1}, {"no_timestamps_id": VOCAB - 1}),
        ({"task_to_id": {"translate": 0}}, {"tasks": {"translate": 0}}),
        ({"do_sample": True, "temperature": 0.3, "alignment_heads": [[0, 1]]}, {}),
        (
            {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
            {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
        ),
        (
            {"num_beams": 3, "early_stopping": True},
            {"beam_size": 3, "early_stopping": True, "length_penalty": "power", "alpha": 1.0},
        ),
    ],
    ids=str,
)
def test_each_default_is_one_of_ours(changes, expected):
    assert ours({**GENERATION, **changes}).settings == {**OURS, **expected}


def test_without_a_file_of_its_own_they_are_in_config_json():
    old = {"suppress_tokens": [3], "forced_decoder_ids": [[1, 52], [2, 57]], "max_length": 9}
    found = ours(None, {**CONFIG, **old})
    assert found.settings == {"beam_size": 1, "max_length": 9, "suppressed_ids": [3], "prompt": [52, 57]}
    forced = {"forced_decoder_ids": [[1, 52], [2, 57]]}
    assert ours(GENERATION, {**CONFIG, **forced}).settings == {**OURS, "prompt": [52, 57]}
    with pytest.raises(FolderError, match=r"^config.json: forced_decoder_ids = \[\[2, 57\]\]"):
        ours(GENERATION, {**CONFIG, "forced_decoder_ids": [[2, 57]]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"no_speech_threshold": 0.6}, "no_speech_threshold = 0.6 is not supported"),
        ({"condition_on_prev_tokens": True}, "condition_on_prev_tokens = True is not supported"),
        ({"min_length": 5}, "min_length = 5 is not supported"),
        ({"decoder_start_token_id": 52}, "decoder_start_token_id = 52, but config.json has 51"),
        ({"eos_token_id": [EOS, 52]}, r"eos_token_id = \[50, 52\], but config.json has 50"),
        ({"forced_decoder_ids": [[2, 57]]}, r"forced_decoder_ids = \[\[2, 57\]\] is not supported"),
        ({"forced_decoder_ids": [[1, 57], [2, None]]}, "is not supported"),
        ({"forced_decoder_ids": [[1, VOCAB]]}, "is not supported"),
        ({"suppress_tokens": [-1]}, "suppress_tokens is not a list of token ids"),
        ({"suppress_tokens": ["a"]}, "suppress_tokens is not a list of token ids"),
        ({"lang_to_id": {"<|en|>": VOCAB}}, "lang_to_id is not an object of token ids"),
        ({"task_to_id": [57]}, "task_to_id is not an object of token ids"),
        ({"no_timestamps_token_id": VOCAB}, f"no_timestamps_token_id = {VOCAB} is out of range"),
        ({"language": ["en", "de"]}, "is not a text"),
        ({"is_multilingual": False, "language": "en"}, "but is_multilingual = false"),
        ({"num_beams": 0}, "num_beams = 0 is not supported"),
    ],
    ids=str,
)
def test_what_is_not_reproduced_is_refused(changes, message):
    with pytest.raises(FolderError, match=message) as caught:
        ours({**GENERATION, **changes})
    assert "generation_config.json" in caught.value.message
    assert "\n" not in caught.value.message


def test_what_has_no_counterpart_is_named():
    assert ours({**GENERATION, "epsilon_cutoff": 0.1}).unused == ("epsilon_cutoff = 0.1",)


def test_our_settings_come_back_from_those_of_transformers(tmp_path):
    whisper(tmp_path)
    tokenizers = load_pretrained(tmp_path).loaded.tokenizers
    for changes in (
        {},
        {"prompt": [DETECTED, 57], "timestamps": True, "latest_first_timestamp": 3},
        {"beam_size": 3, "heuristic_stopping": True, "length_penalty": "power", "alpha": 0.5},
        {"language": "yue", "task": "translate", "max_length": 7},
    ):
        written = write_speech_decoding({**OURS, **changes}, tokenizers)
        assert written.unused == ()
        assert ours({**written.decoding, "eos_token_id": EOS}).settings == {**OURS, **changes}


@pytest.mark.parametrize(
    ("changes", "theirs", "unused"),
    [
        ({}, {"lang_to_id": {"<|en|>": 52, "<|de|>": 53, "<|yue|>": 54}, "is_multilingual": True}, ()),
        ({"languages": None}, {"lang_to_id": None, "is_multilingual": False}, ()),
        ({"prompt": [DETECTED, 57]}, {"forced_decoder_ids": [[1, None], [2, 57]]}, ()),
        ({"prompt": None}, {"forced_decoder_ids": None}, ()),
        ({"max_new_tokens": 5}, {"max_length": 5}, ()),
        ({"min_new_tokens": 2}, {"min_length": 3}, ()),
        ({"beam_size": 3}, {"num_beams": 3}, ("length_penalty = 'wu'",)),
    ],
    ids=str,
)
def test_what_transformers_reads_of_our_settings(changes, theirs, unused):
    words = train_tokenizer(["a b"], "words", TokenizerSettings(kind="words"))
    found = write_speech_decoding({**OURS, **changes}, TokenizerPair(words, words))
    assert {name: found.decoding.get(name) for name in theirs} == theirs
    assert found.unused == unused


def test_a_prompt_has_the_language_the_task_and_whether_there_are_times():
    en, translate, transcribe = LANGUAGES["<|en|>"], TASKS["translate"], TASKS["transcribe"]
    for changes, detects, prompt in (
        ({}, True, (9, NO_TIMES)),
        ({"prompt": [DETECTED, transcribe]}, True, (9, transcribe, NO_TIMES)),
        ({"prompt": [52, transcribe, NO_TIMES]}, False, (52, transcribe, NO_TIMES)),
        ({"prompt": [DETECTED, transcribe], "timestamps": True}, True, (9, transcribe)),
        ({"prompt": [NO_TIMES], "timestamps": True, "languages": None}, False, ()),
        ({"language": "en"}, False, (en, transcribe, NO_TIMES)),
        ({"language": "en", "prompt": [DETECTED, translate]}, False, (en, transcribe, NO_TIMES)),
        ({"task": "translate", "prompt": [52, transcribe]}, True, (9, translate, NO_TIMES)),
        ({"language": "en", "tasks": None}, False, (en, NO_TIMES)),
    ):
        found = settings(**changes)
        assert found.detects == detects, changes
        assert found.prompt_with(9 if detects else None) == prompt, changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"language": "fr"}, "the model has no language 'fr'"),
        ({"task": "sing"}, "the model has no task 'sing'"),
        ({"timestamps": True, "no_timestamps_id": None}, "timestamps are set"),
        ({"languages": {"en": True}}, "each value must be a token's id"),
        ({"max_context": 3}, "max_context = 3 is for a language model"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        settings().with_(**changes)
