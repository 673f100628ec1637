"""Decoding defaults of transformers become ours, and ours theirs; what has no counterpart is named."""

import json

import pytest

from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.decoding.continuation import ContinuationSettings
from regard.decoding.settings import GenerationSettings
from regard.errors import FolderError
from regard.recipe import read
from regard.weights.huggingface_decoding import (
    RANGES,
    ConvertedDecoding,
    read_decoding,
    setting_text,
    spellings,
    write_decoding,
)
from regard.weights.pretrained import load_pretrained

PAD, BOS, EOS = 7, 8, 9  # the pieces of the fixture: a b c Ġ ab Ġa d e f </s>
BEAM = {"num_beams": 4, "early_stopping": "never"}
OURS = {"beam_size": 4, "length_penalty": "power", "alpha": 1.0}


@pytest.fixture
def text(gpt2) -> TokenizerPair:
    path = gpt2 / "config.json"
    table = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**table, "pad_token_id": PAD, "bos_token_id": BOS}), "utf-8")
    return load_pretrained(gpt2).loaded.tokenizers


def theirs(own, *, config=None, has_source=True, tokenizers=None) -> ConvertedDecoding:
    """Ours, of a generation_config.json and a config.json."""
    found = read_decoding(
        config or {}, own, ("config", "generation"), has_source=has_source, tokenizers=tokenizers
    )
    read(GenerationSettings if has_source else ContinuationSettings, found.settings)  # all is possible
    return found


@pytest.mark.parametrize(
    ("table", "ours", "unused"),
    [
        ({}, {"beam_size": 1}, ()),
        ({"num_beams": 1}, {"beam_size": 1}, ()),
        ({"num_beams": 1, "early_stopping": True, "length_penalty": 2.0}, {"beam_size": 1}, ()),
        ({"early_stopping": True, "length_penalty": 2.0}, {"beam_size": 1}, ()),
        ({"do_sample": False}, {"beam_size": 1}, ()),
        ({"num_beams": 2}, OURS | {"beam_size": 2, "heuristic_stopping": True}, ()),
        ({"num_beams": 4, "early_stopping": False}, {**OURS, "heuristic_stopping": True}, ()),
        ({"num_beams": 4, "early_stopping": True}, {**OURS, "early_stopping": True}, ()),
        (BEAM, OURS, ()),
        ({**BEAM, "length_penalty": 0}, {**OURS, "alpha": 0.0}, ()),
        ({**BEAM, "length_penalty": 2.5}, {**OURS, "alpha": 2.5}, ()),
        ({**BEAM, "do_sample": True}, OURS, ("do_sample = True",)),
        ({**BEAM, "num_beams": 2, "do_sample": True}, {**OURS, "beam_size": 2}, ("do_sample = True",)),
        ({**BEAM, "temperature": 0.5}, OURS, ("temperature = 0.5",)),
        ({"do_sample": True}, {"sample": True, "top_k": 50}, ()),
        ({"do_sample": True, "num_beams": 1}, {"sample": True, "top_k": 50}, ()),
        ({"do_sample": True, "top_k": 0}, {"sample": True, "top_k": 0}, ()),
        ({"do_sample": True, "temperature": 1.0}, {"sample": True, "top_k": 50}, ()),
        (
            {"do_sample": True, "temperature": 2, "top_k": 7, "top_p": 0.5, "min_p": 0.25, "typical_p": 0.75},
            {"sample": True, "temperature": 2.0, "top_k": 7, "top_p": 0.5, "min_p": 0.25, "typical_p": 0.75},
            (),
        ),
        (
            {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
            {**OURS, "beam_groups": 2, "diversity": 0.5},
            (),
        ),
        (
            {"num_beams": 4, "num_beam_groups": 2},
            {**OURS, "heuristic_stopping": True},
            ("num_beam_groups = 2",),
        ),
        (
            {"num_beams": 4, "diversity_penalty": 0.5},
            {**OURS, "heuristic_stopping": True},
            ("diversity_penalty = 0.5",),
        ),
        ({**BEAM, "num_return_sequences": 2}, OURS, ("num_return_sequences = 2",)),
        ({**BEAM, "num_return_sequences": 1, "num_beam_groups": 1, "diversity_penalty": 0.0}, OURS, ()),
        ({"repetition_penalty": 1.5}, {"beam_size": 1, "repetition_penalty": 1.5}, ()),
        ({"repetition_penalty": 1.0, "no_repeat_ngram_size": 0}, {"beam_size": 1}, ()),
        ({"no_repeat_ngram_size": 3}, {"beam_size": 1, "no_repeat_ngram_size": 3}, ()),
        ({"encoder_no_repeat_ngram_size": 3}, {"beam_size": 1, "no_repeat_source_ngram_size": 3}, ()),
        ({"forced_bos_token_id": 0}, {"beam_size": 1, "forced_bos_id": 0}, ()),
        (
            {"other_token_id": 0, "suppress": 0, "guidance": 2},
            {"beam_size": 1},
            ("guidance = 2", "other_token_id = 0"),
        ),
        (
            {"encoder_repetition_penalty": 1.0, "use_cache": True, "cache_implementation": "static"},
            {"beam_size": 1},
            (),
        ),
        ({"encoder_repetition_penalty": 1.5}, {"beam_size": 1}, ("encoder_repetition_penalty = 1.5",)),
    ],
    ids=str,
)
def test_each_setting_of_a_model_with_a_source_is_one_of_ours_or_is_named(table, ours, unused):
    assert theirs(table) == ConvertedDecoding(settings=ours, unused=unused)


@pytest.mark.parametrize(
    ("table", "ours", "unused"),
    [
        ({}, {}, ()),
        ({"do_sample": False}, {"beam_size": 1}, ()),
        ({"num_beams": 1}, {"beam_size": 1}, ()),
        ({"length_penalty": 2.0, "early_stopping": True}, {}, ()),
        ({"max_new_tokens": 5, "min_new_tokens": 2}, {"max_new_tokens": 5, "min_new_tokens": 2}, ()),
        ({"max_length": 5, "min_length": 2}, {}, ("max_length = 5", "min_length = 2")),
        (
            {"encoder_no_repeat_ngram_size": 3, "forced_bos_token_id": 1},
            {},
            ("encoder_no_repeat_ngram_size = 3", "forced_bos_token_id = 1"),
        ),
    ],
    ids=str,
)
def test_each_setting_of_a_language_model_is_one_of_ours_or_is_named(table, ours, unused):
    assert theirs(table, has_source=False) == ConvertedDecoding(settings=ours, unused=unused)


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize(
    ("table", "greatest", "least"),
    [
        ({"max_length": 0}, None, None),
        ({"max_length": 1}, None, None),
        ({"max_length": 2}, 1, None),
        ({"max_length": 9}, 8, None),
        ({"max_new_tokens": 9}, 9, None),
        ({"max_length": 5, "max_new_tokens": 9}, 9, None),
        ({"max_length": 5, "max_new_tokens": 0}, 4, None),
        ({"min_length": 1}, None, None),
        ({"min_length": 2}, None, 1),
        ({"min_new_tokens": 3}, None, 3),
        ({"min_length": 5, "min_new_tokens": 3}, None, 4),
        ({"min_length": 3, "min_new_tokens": 5}, None, 5),
        ({"max_length": 4, "min_length": 9}, 3, 3),
    ],
    ids=str,
)
def test_lengths_are_without_the_start_token_and_a_forced_end(table, greatest, least, forced):
    own = {**table, "forced_eos_token_id": 2} if forced else table
    if greatest is not None:
        greatest = max(1, greatest - forced)
    least = least if least is None or greatest is None else min(least, greatest)
    found = theirs(own)
    assert found.settings.get("max_length") == greatest
    assert found.settings.get("min_new_tokens") == least
    assert found.unused == ()


def test_without_a_file_of_its_own_the_defaults_are_those_of_config_json():
    config = {"num_beams": 4, "d_model": 8, "suppress_tokens": [3], "early_stopping": "never", "top_p": 0.5}
    found = theirs(None, config=config)
    assert found == ConvertedDecoding(settings=OURS, unused=("suppress_tokens = [3]", "top_p = 0.5"))
    assert theirs({}, config=config).settings == {"beam_size": 1}
    older = {"force_bos_token_to_be_generated": True, "bos_token_id": 0}
    assert theirs(None, config=older).settings == {"beam_size": 1, "forced_bos_id": 0}
    newer = {**older, "forced_bos_token_id": 3}
    assert theirs(None, config=newer).settings["forced_bos_id"] == 3
    for value in (False, 1):
        off = {**older, "force_bos_token_to_be_generated": value}
        assert theirs(None, config=off).settings == {"beam_size": 1}


@pytest.mark.parametrize("name", RANGES)
def test_a_number_is_in_its_range(name):
    kind, least, most = RANGES[name]
    for value in (least, most) if kind is not bool else (False, True):
        read_decoding({}, {name: kind(value)}, ("config", "generation"), has_source=True, tokenizers=None)
    wrong = (2, 1.0) if kind is bool else (least - 1, most + 1, True, "1", 2**64, [1])
    for value in wrong:
        with pytest.raises(FolderError, match=f"generation: {name} ") as caught:
            theirs({name: value})
        assert caught.value.hint
    with pytest.raises(FolderError, match=f"generation: {name} is an integer of 1,329 bits"):
        theirs({name: 10**400})  # beyond floating point too
    with pytest.raises(FolderError, match=f"config: {name} = 'x' is not supported") as caught:
        theirs(None, config={name: "x"})
    wanted = "true or false" if kind is bool else f"a number from {least:g} to {most:g}"
    assert wanted in caught.value.hint


def test_an_integer_is_a_number_with_a_fraction_too():
    assert type(theirs({**BEAM, "length_penalty": 2}).settings["alpha"]) is float
    with pytest.raises(FolderError, match=r"num_beams = 2\.0 is not supported"):
        theirs({"num_beams": 2.0})


def test_texts_end_at_stop_strings():
    for value, stops in (("END", ["END"]), (["a", "b"], ["a", "b"])):
        assert theirs({"stop_strings": value}).settings["stop"] == stops
        assert theirs({"stop_strings": value}).unused == ()
    for value in (["a", ""], [1], {"a": 1}, 5):
        assert theirs({"stop_strings": value}).unused == (f"stop_strings = {value}",)
    for value in ("", []):
        assert theirs({"stop_strings": value}) == theirs({})


def test_a_word_has_two_spellings(text):
    assert spellings(text.target, "b") == [(1,), (3, 1)]
    assert spellings(text.target, "ab") == [(4,), (3, 4)]
    words = train_tokenizer(["good film"] * 3, "words", TokenizerSettings(kind="words"))
    assert spellings(words, "good") == [
        tuple(words.encode("good"))
    ]  # the same at the start and after a space
    assert spellings(words, "bad") == []  # no word of the vocabulary
    assert spellings(words, "") == []


@pytest.mark.parametrize(
    ("ids", "banned"),
    [
        ([[1], [3, 1]], ["1", "3 1"]),
        ([[1]], ["1"]),
        ([[1, 3, 1], [2], [2]], ["1 3 1", "2"]),
        ([[1], [PAD]], ["1"]),
        ([[1], [BOS], [EOS]], ["1"]),  # transformers leaves the end out
        ([[EOS, 1]], [f"{EOS} 1"]),
        ([[PAD], [BOS]], None),
        ([], None),
    ],
    ids=str,
)
def test_exactly_the_banned_ids_of_transformers_are_banned(text, ids, banned):
    found = theirs({"bad_words_ids": ids}, tokenizers=text)
    assert (found.settings.get("ban_ids"), found.settings.get("ban")) == (banned, None)
    assert found.unused == ()


@pytest.mark.parametrize(
    "ids",
    [[[EOS]], [[]], [[1], []], [[11]], [[-1]], [[10**30]], [[True]], [["b"]], [1], 5, "b"],
    ids=str,
)
def test_what_are_no_ids_of_the_vocabulary_is_named(text, ids):
    found = theirs({"bad_words_ids": ids}, tokenizers=text)
    assert "ban" not in found.settings
    assert found.unused == (setting_text("bad_words_ids", ids),)
    assert theirs({"bad_words_ids": [[1], [3, 1]]}).unused == ("bad_words_ids = [[1], [3, 1]]",)  # no text


def test_a_task_has_a_prefix_and_its_other_settings_are_named():
    tasks = {
        "summary": {"prefix": "summarize: ", "num_beams": 4, "max_length": 9, "top_k": None},
        "other": {"prefix": None, "num_beams": 3},
    }
    config = {"prefix": "do: ", "task_specific_params": tasks}
    left = ("summary.max_length = 9", "other.num_beams = 3")
    found = theirs(BEAM, config=config)
    assert found.settings["prefixes"] == {"": "do: ", "summary": "summarize: "}
    assert found.unused == left
    without = theirs(BEAM, config=config, has_source=False)
    assert "prefixes" not in without.settings
    assert without.unused == (*left, "prefix = 'do: '", "prefix summary = 'summarize: '")
    for empty in ({}, {"task_specific_params": None, "prefix": None}, {"prefix": ""}):
        assert theirs(BEAM, config=empty) == ConvertedDecoding(settings=OURS)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"task_specific_params": [1]}, "config: task_specific_params is not an object of objects"),
        ({"task_specific_params": {"a": 1}}, "config: task_specific_params is not an object of objects"),
        ({"prefix": 3}, "config: the prefix 3 of all tasks is not text"),
        ({"task_specific_params": {"a": {"prefix": 3}}}, "config: the prefix 3 of a is not text"),
    ],
    ids=str,
)
def test_tasks_of_another_form_are_refused(config, message):
    with pytest.raises(FolderError, match=message):
        theirs({}, config=config)


def test_a_long_setting_is_cut():
    for length in (59, 60):
        assert setting_text("a", [7] * (length // 3)) == f"a = {[7] * (length // 3)}"
    assert setting_text("a", int("7" * 60)) == f"a = {'7' * 60}"
    assert setting_text("a", int("7" * 61)) == f"a = {'7' * 57}..."
    assert setting_text("a", "b") == "a = 'b'"


@pytest.mark.parametrize(
    ("ours", "table", "unused"),
    [
        ({}, {}, ()),
        ({"beam_size": 1}, {"num_beams": 1}, ()),
        ({"beam_size": 1, "length_penalty": "power", "alpha": 2.0}, {"num_beams": 1}, ()),
        ({"beam_size": 4}, BEAM, ("length_penalty = 'wu'",)),
        ({"beam_size": 4, "length_penalty": "wu", "alpha": 2.0}, BEAM, ("length_penalty = 'wu'",)),
        ({"beam_size": 4, "length_penalty": "power"}, {**BEAM, "length_penalty": 1.0}, ()),
        ({"beam_size": 4, "length_penalty": "power", "alpha": 2.0}, {**BEAM, "length_penalty": 2.0}, ()),
        ({"beam_size": 4, "length_penalty": "power", "alpha": 0.0}, {**BEAM, "length_penalty": 0.0}, ()),
        ({"beam_size": 4, "length_penalty": "none", "alpha": 2.0}, {**BEAM, "length_penalty": 0.0}, ()),
        (
            {**OURS, "early_stopping": True},
            {"num_beams": 4, "length_penalty": 1.0, "early_stopping": True},
            (),
        ),
        ({**OURS, "heuristic_stopping": True}, {"num_beams": 4, "length_penalty": 1.0}, ()),
        (
            {**OURS, "beam_groups": 2, "diversity": 0.5},
            {**BEAM, "length_penalty": 1.0, "num_beam_groups": 2, "diversity_penalty": 0.5},
            (),
        ),
        (
            {**OURS, "beam_groups": 2},
            {**BEAM, "length_penalty": 1.0, "num_beam_groups": 2, "diversity_penalty": 0.0},
            (),
        ),
        ({**OURS, "beam_groups": 1}, {**BEAM, "length_penalty": 1.0}, ()),
        ({"temperature": 0}, {"num_beams": 1}, ()),
        ({"temperature": 0, "sample": True}, {"num_beams": 1}, ()),
        ({"temperature": 0, "beam_size": 4}, {"num_beams": 1}, ()),
        ({"sample": True}, {"do_sample": True, "top_k": 0}, ()),
        (
            {
                **OURS,
                "sample": True,
                "top_k": 7,
                "top_p": 0.5,
                "early_stopping": True,
                "heuristic_stopping": True,
            },
            {"do_sample": True, "top_k": 7, "top_p": 0.5},
            (),
        ),
        ({"sample": True, "min_p": None}, {"do_sample": True, "top_k": 0}, ()),
        ({"sample": False, "top_p": 0.5}, {}, ("top_p = 0.5",)),
        (
            {**OURS, "top_p": 0.5, "temperature": 1.0, "typical_p": 1.0},
            {**BEAM, "length_penalty": 1.0},
            ("top_p = 0.5",),
        ),
        ({"top_p": 1.0, "temperature": 1.0, "seed": 0}, {}, ()),
        (
            {"repetition_penalty": 1.5, "no_repeat_ngram_size": 3},
            {"repetition_penalty": 1.5, "no_repeat_ngram_size": 3},
            (),
        ),
        ({"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "n_best": 1, "forced_bos_id": None}, {}, ()),
        (
            {"no_repeat_source_ngram_size": 3, "forced_bos_id": 0, "n_best": 2},
            {"encoder_no_repeat_ngram_size": 3, "forced_bos_token_id": 0, "num_return_sequences": 2},
            (),
        ),
        ({"begin": True, "may_end": True, "end_ids": [3], "draft_tokens": 3, "prompt_lookup": 2}, {}, ()),
        ({"split_above": 100, "lower_capitals": True}, {}, ("split_above = 100", "lower_capitals = True")),
        ({"stop": ["a", "b"]}, {"stop_strings": ["a", "b"]}, ()),
        ({"stop": [], "ban": []}, {}, ()),
        ({"ban": ["b", "ab"]}, {"bad_words_ids": [[1], [3, 1], [4], [3, 4]]}, ()),
        ({"ban": ["b"], "ban_ids": ["2", "3 4"]}, {"bad_words_ids": [[1], [3, 1], [2], [3, 4]]}, ()),
    ],
    ids=str,
)
def test_ours_are_theirs_or_are_named(text, ours, table, unused):
    before = dict(ours)
    found = write_decoding(ours, has_source=True, tokenizers=text, forced_eos=False)
    assert (found.decoding, found.tasks, found.unused) == (table, {}, unused)
    assert ours == before


def test_a_language_model_samples_unless_it_has_a_beam(text):
    for ours, table in (
        ({}, {}),
        ({"top_p": 0.5}, {"do_sample": True, "top_k": 0, "top_p": 0.5}),
        ({"sample": True}, {"do_sample": True, "top_k": 0}),
        ({"beam_size": 4}, {**BEAM, "length_penalty": 0.0}),
        ({"max_new_tokens": 5, "min_new_tokens": 2}, {"max_new_tokens": 5, "min_new_tokens": 2}),
        ({"max_new_tokens": None, "min_new_tokens": None, "min_length": 3}, {"min_new_tokens": 3}),
    ):
        found = write_decoding(ours, has_source=False, tokenizers=text, forced_eos=False)
        assert (found.decoding, found.unused) == (table, ())
    searched = write_decoding(
        {"beam_size": 4, "top_p": 0.5}, has_source=False, tokenizers=text, forced_eos=False
    )
    assert searched.unused == ("top_p = 0.5",)
    drawn = write_decoding(
        {"sample": False, "top_p": 0.5}, has_source=False, tokenizers=text, forced_eos=False
    )
    assert drawn.decoding == {}


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize(
    ("ours", "greatest", "least", "unused"),
    [
        ({}, None, None, ()),
        ({"max_length": 5}, 6, None, ()),
        ({"max_new_tokens": 7}, 8, None, ()),
        ({"max_length": 5, "max_new_tokens": 7}, 8, None, ()),
        ({"min_length": 3}, None, 4, ()),
        ({"min_new_tokens": 3}, None, 4, ()),
        ({"min_length": 5, "min_new_tokens": 3}, None, 6, ()),
        ({"min_length": 0, "min_new_tokens": None, "max_new_tokens": None}, None, None, ()),
        ({"max_length_ratio": 2.0, "max_length_offset": 5, "max_new_tokens": 7}, 8, None, ()),
        (
            {"max_length_ratio": 2.0, "max_length_offset": 5},
            None,
            None,
            ("max_length_ratio = 2.0", "max_length_offset = 5"),
        ),
    ],
    ids=str,
)
def test_lengths_are_written_with_the_start_token_and_a_forced_end(
    text, ours, greatest, least, unused, forced
):
    found = write_decoding(ours, has_source=True, tokenizers=text, forced_eos=forced)
    table = {"max_length": greatest and greatest + forced, "min_length": least}
    assert found.decoding == {name: value for name, value in table.items() if value}
    assert found.unused == unused


def test_prefixes_are_those_of_tasks(text):
    for prefixes, tasks in (
        (None, {}),
        ({}, {}),
        ({"": "do: "}, {"prefix": "do: "}),
        ({"a": "b: "}, {"task_specific_params": {"a": {"prefix": "b: "}}}),
        ({"": "do: ", "a": "b: "}, {"prefix": "do: ", "task_specific_params": {"a": {"prefix": "b: "}}}),
    ):
        found = write_decoding({"prefixes": prefixes}, has_source=True, tokenizers=text, forced_eos=False)
        assert (found.tasks, found.decoding, found.unused) == (tasks, {}, ())
        if prefixes:
            assert theirs({}, config=found.tasks).settings["prefixes"] == prefixes


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize(
    "table",
    [
        {"num_beams": 1},
        {**BEAM, "length_penalty": 2.0, "max_length": 9, "min_length": 3},
        {"num_beams": 4, "length_penalty": 1.0, "early_stopping": True},
        {"num_beams": 4, "length_penalty": 1.0},
        {"do_sample": True, "top_k": 50, "temperature": 0.5, "typical_p": 0.5},
        {"num_beams": 1, "bad_words_ids": [[1], [3, 1]], "stop_strings": ["END"], "repetition_penalty": 1.5},
        {"num_beams": 1, "forced_bos_token_id": 0, "encoder_no_repeat_ngram_size": 2},
    ],
    ids=str,
)
def test_what_is_read_is_written_back(text, table, forced):
    own = {**table, "forced_eos_token_id": EOS} if forced else table
    found = theirs(own, tokenizers=text)
    assert found.unused == ()
    written = write_decoding(found.settings, has_source=True, tokenizers=text, forced_eos=forced)
    assert (written.decoding, written.unused) == (table, ())
