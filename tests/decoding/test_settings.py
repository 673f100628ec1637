"""Settings become the search that they describe; what cannot work is refused where it is written."""

import pytest

from regard.decoding.hypothesis import Power, Wu
from regard.decoding.rules import BannedTokens, LengthLimits, MinimumLength, NoRepeatNGrams
from regard.decoding.sampling import Sampling, Temperature, TopK, TopP
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.settings import GenerationSettings
from regard.errors import ConfigError, RecipeError
from regard.recipe import read


def test_the_defaults_are_a_beam_with_the_penalty_of_the_paper():
    assert GenerationSettings().strategy() == BeamSearch(
        size=5,
        length_penalty=Wu(alpha=0.6),
        limits=LengthLimits(ratio=1.0, offset=50, least=0, most=1024),
        rules=(BannedTokens(ids=(0, 2)),),
    )


def test_each_setting_has_its_value():
    settings = GenerationSettings(
        beam_size=8, n_best=3, length_penalty="power", alpha=1.0, min_length=2, no_repeat_ngram_size=3
    )
    search = settings.strategy(pad_id=5, bos_id=6, eos_id=7)
    assert isinstance(search, BeamSearch)
    assert (search.size, search.n_best, search.length_penalty) == (8, 3, Power(alpha=1.0))
    assert search.rules == (
        BannedTokens(ids=(5, 6)),
        MinimumLength(length=2, eos_id=7),
        NoRepeatNGrams(size=3),
    )
    assert (search.bos_id, search.eos_id, search.limits.least) == (6, 7, 2)
    assert GenerationSettings(length_penalty="none").strategy().length_penalty == Power(alpha=0.0)


def test_a_beam_of_one_is_greedy_and_sampling_is_sampling():
    assert isinstance(GenerationSettings(beam_size=1).strategy(), GreedySearch)
    sampling = GenerationSettings(
        sample=True, temperature=0.7, top_k=9, top_p=0.9, seed=4, n_best=20
    ).strategy()
    assert isinstance(sampling, Sampling)
    assert sampling.filters == (Temperature(temperature=0.7), TopK(k=9), TopP(p=0.9))
    assert (sampling.seed, sampling.n_best) == (4, 20)
    assert not GenerationSettings(sample=True).strategy().filters


def test_the_greatest_number_of_new_tokens_replaces_the_length_by_the_source():
    limits = GenerationSettings(max_new_tokens=7).strategy().limits
    assert limits == LengthLimits(ratio=0.0, offset=7, least=0, most=7)
    limits = GenerationSettings(max_length=9, min_length=2, min_new_tokens=4).strategy().limits
    assert limits == LengthLimits(ratio=1.0, offset=50, least=4, most=9)


def test_the_least_lengths_are_one_token_and_none_beyond_the_source():
    settings = GenerationSettings(max_length=1, max_length_ratio=0.0, max_length_offset=0)
    assert settings.strategy().limits == LengthLimits(ratio=0.0, offset=0, least=0, most=1)


def test_a_wider_beam_is_at_least_as_wide():
    assert GenerationSettings(beam_size=4).widened(8).beam_size == 8
    assert GenerationSettings(beam_size=4).widened(2).beam_size == 4


def test_settings_without_a_key_keep_their_meaning():
    """generation.json holds all that differs from these."""
    defaults = GenerationSettings()
    named = {"lower_capitals": False, "split_above": 0, "seed": 0, "top_k": 0, "no_repeat_ngram_size": 0}
    named |= {"temperature": 1.0, "top_p": 1.0, "sample": False, "min_length": 0, "n_best": 1}
    assert {name: getattr(defaults, name) for name in named} == named


def test_an_end_token_that_also_begins_texts_can_be_generated():
    bart = GenerationSettings(beam_size=1).strategy(pad_id=1, bos_id=2, eos_id=2)
    assert bart.rules == (BannedTokens(ids=(1,)),)
    both = GenerationSettings(beam_size=1, end_ids=(1,)).strategy(pad_id=1, bos_id=0, eos_id=2)
    assert both.rules == (BannedTokens(ids=(0,)),)


def test_a_prefix_is_a_text():
    with pytest.raises(ConfigError, match="each value must be a text"):
        GenerationSettings(prefixes={"": "do: ", "summary": 3})
    assert GenerationSettings(prefixes={"": "do: "}).prefixes == {"": "do: "}


def test_settings_survive_generation_json_and_a_misspelt_one_is_refused():
    settings = GenerationSettings(beam_size=3, sample=True, top_p=0.5)
    assert read(GenerationSettings, settings.to_dict(), "generation.json") == settings
    assert settings.with_(beam_size=4).beam_size == 4
    with pytest.raises(RecipeError) as error:
        read(GenerationSettings, {"beam_sise": 3}, "generation.json")
    assert "beam_size" in error.value.hint


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [("beam_size", 0, "beam_size = 5"), ("n_best", 0, "n_best = 1"), ("alpha", -0.5, "alpha = 0.6"),
     ("alpha", float("nan"), "alpha = 0.6"), ("max_length", 0, "max_length = 1024"),
     ("top_k", -1, "top_k = 0"),
     ("max_length_ratio", -1.0, "max_length_ratio = 1.0"), ("min_length", -1, "min_length = 0"),
     ("max_length_offset", -1, "max_length_offset = 50"), ("min_length", 2000, "max_length = 2000"),
     ("n_best", 6, "beam_size = 6"), ("top_p", 0.0, "top_p = 1.0"),
     ("temperature", -1.0, "temperature = 1.0"),
     ("no_repeat_ngram_size", -2, "no_repeat_ngram_size = 0"), ("forced_bos_id", -1, "begin at 0"),
     ("max_context", 9, "leave it out"), ("split_above", -1, "split_above = 0"),
     ("beam_size", 1001, "beam_size = 5"), ("n_best", 1001, "n_best = 1"),
     ("max_length_ratio", 1000.1, "max_length_ratio = 1.0"), ("min_length", 100_001, "min_length = 0"),
     ("max_length", 10**6 + 1, "max_length = 1024"), ("max_length_offset", 10**6 + 1, "offset = 50")],
)  # fmt: skip
def test_nonsense_is_refused_with_what_would_do(name, value, hint):
    with pytest.raises(ConfigError, match=name) as error:
        GenerationSettings(**{name: value})
    assert hint in error.value.hint
