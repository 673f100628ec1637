"""The prompt with which a text of speech begins, and the settings of speech that are refused."""

import dataclasses

import pytest

from regard.decoding.rules import BannedTokens, MinimumLength
from regard.decoding.search import GreedySearch
from regard.decoding.timestamps import BannedFirstTokens, TimestampRule
from regard.decoding.transcript_settings import TranscriptSettings
from regard.errors import ConfigError
from regard.models.speech_to_text import DETECTED

TABLES = {"languages": {"en": 50, "de": 51}, "tasks": {"transcribe": 60, "translate": 61}}
SILENT = 70  # <|notimestamps|>
WHISPER = TranscriptSettings(**TABLES, no_timestamps_id=SILENT, prompt=(DETECTED, 60, SILENT))


def with_(**changes):
    return dataclasses.replace(WHISPER, **changes)


@pytest.mark.parametrize(
    ("settings", "detected", "prompt"),
    [
        (WHISPER, 51, (51, 60, SILENT)),
        (WHISPER, None, (60, SILENT)),
        (with_(timestamps=True), 51, (51, 60)),
        (with_(language="de"), None, (51, 60, SILENT)),
        (with_(language="de", task="translate"), None, (51, 61, SILENT)),
        (with_(task="translate"), 50, (50, 61, SILENT)),
        (with_(task="translate", timestamps=True), 50, (50, 61)),
        (with_(language="en", tasks=None), None, (50, SILENT)),
        (with_(prompt=()), 50, (50, SILENT)),
        (TranscriptSettings(prompt=(7, 8)), None, (7, 8)),
        (TranscriptSettings(), None, ()),
    ],
    ids=lambda value: "" if isinstance(value, TranscriptSettings) else str(value),
)
def test_a_text_begins_with_the_language_the_task_and_whether_it_has_times(settings, detected, prompt):
    assert settings.prompt_with(detected) == prompt


@pytest.mark.parametrize(
    ("settings", "detects"),
    [
        (WHISPER, True),
        (with_(language="en"), False),
        (with_(languages=None), False),
        (with_(prompt=()), True),
        (with_(prompt=(51, 60)), False),
        (with_(prompt=(51, 60), task="translate"), True),
    ],
    ids=["placeholder", "chosen", "none", "empty", "fixed", "task"],
)
def test_the_model_finds_the_language_unless_it_is_chosen_or_fixed(settings, detects):
    assert settings.detects is detects


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_context": 9}, "max_context = 9 is for a language model"),
        ({"max_length": 0}, "max_length is 0, but must be at least 1"),
        ({"temperature": 0.5}, "temperature = 0.5 is for sampling, but sample is not set"),
        ({"languages": {"en": True}}, "each value must be a token's id"),
        ({"tasks": {"transcribe": True}}, "each value must be a token's id"),
        ({"timestamps": True, "no_timestamps_id": None}, "the model has no tokens for them"),
        ({"language": "fr"}, "the model has no language 'fr'"),
        ({"task": "sing"}, "the model has no task 'sing'"),
        ({"language": "en", "languages": None}, "this model has one language only"),
        ({"task": "translate", "tasks": None}, "this model has one task only"),
    ],
    ids=str,
)
def test_what_a_model_of_speech_has_not_is_refused_by_name(changes, message):
    with pytest.raises(ConfigError, match=message) as refused:
        TranscriptSettings(**{**TABLES, "no_timestamps_id": SILENT, **changes})
    assert refused.value.hint


def test_every_token_of_the_settings_is_named_so_that_it_can_be_checked():
    settings = with_(suppressed_ids=(1,), first_suppressed_ids=(2, 3), no_timestamps_id=0)
    expected = {
        "suppressed_ids": [1],
        "first_suppressed_ids": [2, 3],
        "prompt": [60, SILENT],
        "languages": [50, 51],
        "tasks": [60, 61],
        "no_timestamps_id": [0],
    }
    assert list(settings.token_ids()) == [(name, each) for name, ids in expected.items() for each in ids]
    assert list(TranscriptSettings().token_ids()) == []


def test_a_search_of_speech_has_the_length_of_its_prompt_and_the_rules_of_the_settings():
    settings = with_(
        suppressed_ids=(1,),
        first_suppressed_ids=(2,),
        timestamps=True,
        latest_first_timestamp=5,
        max_length=9,
    )
    search = settings.strategy(4, bos_id=10, eos_id=11, tokenizer=None)
    assert (search.limits.longest(0), search.limits.longest(100)) == (13, 13)
    assert (search.bos_id, search.eos_id, search.n_best, search.cut) == (10, 11, 1, True)
    banned = [rule for rule in search.rules if isinstance(rule, BannedTokens)]
    assert [1 in rule.ids for rule in banned] == [True]
    assert search.rules[-2:] == (
        BannedFirstTokens(ids=(2,)),
        TimestampRule(first_id=SILENT + 1, eos_id=11, latest_first=5),
    )
    assert WHISPER.strategy(4, bos_id=10, eos_id=11, tokenizer=None).limits.longest(0) == 452
    plain = with_(max_new_tokens=3, max_length=1).strategy(4, bos_id=10, eos_id=11, tokenizer=None)
    assert plain.limits.longest(0) == 7
    assert isinstance(plain, GreedySearch)
    assert [*map(type, plain.rules)] == [BannedTokens]
    longer = with_(min_new_tokens=2).strategy(4, bos_id=10, eos_id=11, tokenizer=None)
    assert MinimumLength(length=2, eos_id=11) in longer.rules
