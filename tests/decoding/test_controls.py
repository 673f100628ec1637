"""Controls are declared once; what contradicts another, or lacks one, is refused with both names."""

import dataclasses

import numpy as np
import pytest

from regard.decoding.continuation import ContinuationSettings
from regard.decoding.control_fields import beam_of
from regard.decoding.controls import CONTROLS_BY_NAME, Controls, boosted, controls_with
from regard.decoding.settings import GenerationSettings
from regard.errors import ConfigError
from regard.recipe import read

OLD = {  # generation.json as it was before the controls
    "seq": {
        "beam_size": 5, "n_best": 1, "length_penalty": "wu", "alpha": 0.6, "max_length_ratio": 1.0,
        "max_length_offset": 50, "max_length": 1024, "min_length": 0, "no_repeat_ngram_size": 0,
        "sample": False, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 0,
    },
    "text": {
        "max_new_tokens": 256, "temperature": 0.8, "top_k": 0, "top_p": 1.0, "beam_size": 0,
        "no_repeat_ngram_size": 0, "seed": 0, "begin": True,
    },
}  # fmt: skip


WRONG = [  # of settings that Python makes; files and calls are checked before
    (GenerationSettings, {"max_length": "5"}, "max_length must be an integer, not '5'"),
    (GenerationSettings, {"max_length_ratio": True}, "max_length_ratio must be a number, not True"),
    (GenerationSettings, {"beam_size": 2.0}, "beam_size must be an integer, not 2.0"),
    (GenerationSettings, {"length_penalty": "x"}, "length_penalty must be one of 'wu', 'power', 'none'"),
    (GenerationSettings, {"prefixes": ["x"]}, "prefixes must be a table"),
    (ContinuationSettings, {"begin": 1}, "begin must be true or false, not 1"),
    (ContinuationSettings, {"top_k": "5"}, "top_k must be an integer, not '5'"),
    (Controls, {"ban": "x"}, "ban must be a list, each a string, not 'x'"),
    (Controls, {"ban_ids": [True]}, r"ban_ids\[0\] must be a string or an integer, not True"),
    (Controls, {"ban_ids": [-1]}, "ban_ids = '-1'"),
    (Controls, {"sample": "yes"}, "sample must be true or false, not 'yes'"),
    (Controls, {"beam_size": np.int64(1001)}, "beam_size is 1001, but must be at most 1,000"),
]


@pytest.mark.parametrize(("settings", "given", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_a_value_of_another_type_is_named(monkeypatch, settings, given, message):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)  # it would refuse some first
    with pytest.raises(ConfigError, match=message):
        settings(**given)


def test_values_become_those_of_the_field(monkeypatch):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    made = GenerationSettings(alpha=1, ban=["x"], ban_ids=[5, "7 8"], beam_size=np.int64(3))
    assert made == GenerationSettings(alpha=1.0, ban=("x",), ban_ids=("5", "7 8"), beam_size=3)
    assert read(GenerationSettings, made.to_dict(), "generation.json") == made


def test_every_control_is_known_to_both_kinds_of_settings():
    for settings in (GenerationSettings, ContinuationSettings):
        assert set(CONTROLS_BY_NAME) <= {field.name for field in dataclasses.fields(settings)}
        made = settings()
        assert read(settings, made.to_dict(), "generation.json") == made


def test_old_files_load_and_mean_what_they_meant():
    assert read(GenerationSettings, OLD["seq"], "generation.json") == GenerationSettings()
    sampled = read(GenerationSettings, {**OLD["seq"], "sample": True, "top_k": 9}, "generation.json")
    assert (sampled.samples, sampled.top_k) == (True, 9)
    assert read(ContinuationSettings, OLD["text"], "generation.json").samples
    for greedy in ({"temperature": 0.0}, {"beam_size": 1, "temperature": 1.0}):
        assert read(ContinuationSettings, {**OLD["text"], **greedy}, "generation.json").samples is False


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"temperature": 0.7, "sample": False}, ("temperature = 0.7", "sample is false")),
        ({"temperature": 0.7, "beam_size": 4}, ("temperature = 0.7", "beam_size = 4")),
        ({"temperature": 0.0, "beam_size": 2}, ("temperature = 0.0", "beam_size = 2")),
        ({"temperature": 0.0, "top_k": 4}, ("temperature = 0", "top_k = 4")),
        ({"temperature": 0.0, "sample": True}, ("temperature = 0.0", "sample = True")),
        ({"seed": 4, "beam_size": 2}, ("seed = 4", "beam_size = 2")),
        ({"sample": True, "beam_size": 2}, ("sample = True", "beam_size = 2")),
        ({"sample": True, "early_stopping": True}, ("sample", "early_stopping = True")),
        ({"beam_size": 1, "early_stopping": True}, ("beam_size = 1", "early_stopping = True")),
        ({"sample": True, "must_contain": ("a",)}, ("sample", "must_contain")),
        ({"diversity": 0.5}, ("diversity = 0.5", "beam_groups")),
        ({"beam_groups": 2}, ("beam_groups = 2", "diversity")),
        ({"beam_groups": 2, "beam_size": 5, "diversity": 1.0}, ("beam_groups = 2", "beam_size = 5")),
        (
            {"beam_groups": 2, "beam_size": 4, "diversity": 1.0, "must_contain": ("a",)},
            ("beam_groups = 2", "must_contain"),
        ),
        ({"min_new_tokens": 9, "max_new_tokens": 8}, ("min_new_tokens = 9", "max_new_tokens = 8")),
        ({"prompt_lookup": 3, "beam_size": 2}, ("prompt_lookup = 3", "beam_size = 2")),
        ({"prompt_lookup": 3, "draft_model": "x"}, ("prompt_lookup = 3", "draft_model = x")),
        ({"draft_tokens": 3}, ("draft_tokens = 3", "draft_model")),
        ({"mbr_samples": 3}, ("mbr_samples = 3", "mbr")),
        ({"mbr": "chrf", "beam_size": 3}, ("mbr = chrf", "beam_size = 3")),
        ({"ban": ("a",), "boost": ("a=2",)}, ("ban", "boost")),
        ({"ban": ("a",), "must_contain": ("b|a",)}, ("ban", "must_contain")),
        ({"boost": ("a",)}, ("boost = 'a'", "TEXT=X")),
        ({"ban": ("",)}, ("ban", "empty")),
        ({"ban_ids": ("",)}, ("ban_ids = ''", "no numbers of tokens")),
        ({"ban_ids": ("5 x",)}, ("ban_ids = '5 x'",)),
        ({"ban_ids": ("-1",)}, ("ban_ids = '-1'",)),
        ({"stop": ("a\0",)}, ("stop has a NUL",)),
        ({"must_contain": ("a\0",)}, ("must_contain has a NUL",)),
        ({"min_p": 1.5}, ("min_p is 1.5", "at most 1")),
        ({"typical_p": 0.0}, ("typical_p is 0.0", "at least 1e-06")),
        ({"repetition_penalty": 0.0}, ("repetition_penalty is 0.0", "at least 1e-06")),
        ({"beam_size": 10**6}, ("beam_size is 1000000", "at most 1,000")),
        ({"max_new_tokens": 10**8}, ("max_new_tokens is 100000000", "at most 100,000")),
        ({"temperature": 1e-300}, ("temperature is 1e-300", "0 or at least 1e-06")),
        ({"top_p": 1e-300}, ("top_p is 1e-300", "at least 1e-06")),
        ({"alpha": 1e6}, ("alpha is 1000000.0", "at most 10")),
        ({"presence_penalty": -1e300}, ("presence_penalty is -1e+300", "at least -1000")),
        ({"boost": ("a=1e30",)}, ("boost = 'a=1e30'", "from -1000 to 1000")),
        ({"ban": ("x" * 10_000,)}, ("ban has a text of more than 5,000 characters",)),
    ],
    ids=str,
)
def test_contradictions_are_refused_with_both_names(given, named):
    with pytest.raises(ConfigError) as raised:
        Controls(**given)
    assert all(name in raised.value.message + raised.value.hint for name in named), raised.value.message
    assert raised.value.hint


RANGES = {  # name -> least and greatest values that are taken, and the nearest that are not
    "beam_size": ((0, 1, 1000), (-1, 1001)),
    "beam_groups": ((1, 1000), (0, 1001)),
    "diversity": ((0.0, 1000.0), (-0.1, 1000.1)),
    "temperature": ((0.0, 1e-6, 1000.0), (-0.1, 0.9e-6, 1000.1)),
    "top_k": ((0, 10**9), (-1, 10**9 + 1)),
    "top_p": ((1e-6, 1.0), (0.0, 1.1)),
    "min_p": ((0.0, 1.0), (-0.1, 1.1)),
    "typical_p": ((1e-6, 1.0), (0.0, 1.1)),
    "seed": ((-(2**63), 0, 2**63 - 1), (-(2**63) - 1, 2**63)),
    "mbr_samples": ((2, 1000), (1, 1001)),
    "alpha": ((0.0, 10.0), (-0.1, 10.1)),
    "repetition_penalty": ((1e-6, 1.0, 1000.0), (0.0, 1000.1)),
    "presence_penalty": ((-1000.0, 1000.0), (-1000.1, 1000.1)),
    "frequency_penalty": ((-1000.0, 1000.0), (-1000.1, 1000.1)),
    "no_repeat_ngram_size": ((0, 100_000), (-1, 100_001)),
    "no_repeat_source_ngram_size": ((0, 100_000), (-1, 100_001)),
    "min_new_tokens": ((0, 100_000), (-1, 100_001)),
    "max_new_tokens": ((1, 100_000), (0, 100_001)),
    "max_context": ((0, 100_000), (-1, 100_001)),
    "prompt_lookup": ((0, 1000), (-1, 1001)),
    "draft_tokens": ((1, 1000), (0, 1001)),
}
NEUTRAL = {  # what switches a control off
    "beam_size": 0,
    "early_stopping": False,
    "heuristic_stopping": False,
    "beam_groups": 1,
    "diversity": 0.0,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
    "typical_p": 1.0,
    "seed": 0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "no_repeat_ngram_size": 0,
    "no_repeat_source_ngram_size": 0,
    "min_new_tokens": 0,
    "prompt_lookup": 0,
}


@pytest.mark.parametrize("name", RANGES)
def test_each_control_takes_the_numbers_of_its_range_and_no_others(name):
    """They are promised: a value that a recipe may hold today may not be refused tomorrow."""
    control, (taken, refused) = CONTROLS_BY_NAME[name], RANGES[name]
    for value in taken:
        control.refuse(name, value, None)
    for value in refused:
        with pytest.raises(ConfigError, match=f"^{name} is ") as raised:
            control.refuse(name, value, None)
        bound = raised.value.message.rpartition(" ")[2].replace(",", "")
        assert float(bound) in map(float, taken), "the message names a number that would do"


def test_each_control_is_switched_off_by_its_own_value():
    declared = {name: control.neutral for name, control in CONTROLS_BY_NAME.items()}
    assert {name: value for name, value in declared.items() if value is not None} == NEUTRAL
    for name, value in NEUTRAL.items():
        assert not Controls(**{name: value}).is_set(name)


def test_the_limits_themselves_contradict_nothing():
    Controls(min_new_tokens=8, max_new_tokens=8)
    Controls(beam_size=2, early_stopping=True, must_contain=("a",))
    Controls(beam_size=2, beam_groups=2, diversity=0.5)
    Controls(temperature=0.0, beam_size=1)
    Controls(sample=True, beam_size=0)
    ContinuationSettings(sample=True, beam_size=0, prompt_lookup=2)
    Controls(end_ids=(0,), ban=("x" * 5000,))
    GenerationSettings(min_length=9, max_length=9, n_best=5, beam_size=5, forced_bos_id=0)
    assert boosted("a=1000") == ("a", 1000.0)
    assert boosted("a=-1000") == ("a", -1000.0)


@pytest.mark.parametrize(("size", "width"), [(None, 1), (0, 1), (1, 1), (7, 7)])
def test_a_beam_that_is_not_set_is_greedy(size, width):
    beam = beam_of(size)
    assert (beam.width, beam.or_greedy.beam_size, beam.has_beam) == (width, width, size is not None)
    assert controls_with(beam) == Controls(beam_size=size)
    assert Controls(beam_size=size).size == (size or None)


@pytest.mark.parametrize(
    ("settings", "given", "named"),
    [
        (GenerationSettings(), {"temperature": 0.7}, ("temperature = 0.7", "sample is not set")),
        (GenerationSettings(), {"mbr": "bleu"}, ("mbr = bleu", "sample is not set")),
        (GenerationSettings(beam_size=1), {"early_stopping": True}, ("early_stopping", "beam_size")),
        (ContinuationSettings(), {"early_stopping": True}, ("early_stopping", "sample")),
        (
            ContinuationSettings(),
            {"no_repeat_source_ngram_size": 2},
            ("no_repeat_source_ngram_size", "source"),
        ),
        (ContinuationSettings(beam_size=4), {"top_p": 0.5}, ("top_p = 0.5", "beam_size = 4")),
    ],
)
def test_what_the_model_s_own_settings_leave_no_room_for_is_refused(settings, given, named):
    with pytest.raises(ConfigError) as raised:
        settings.changed(Controls(**given))
    assert all(name in raised.value.message for name in named), raised.value.message


def test_the_hint_names_sample_where_it_is_what_lacks():
    with pytest.raises(ConfigError) as unset:
        GenerationSettings(top_k=3)
    with pytest.raises(ConfigError) as searching:
        ContinuationSettings(beam_size=4, top_k=3)
    assert unset.value.hint == "set sample, or leave out top_k"
    assert searching.value.hint == "leave one of them out"


def test_a_search_that_is_asked_for_rules_out_what_was_set_for_others():
    drawing = GenerationSettings(sample=True, temperature=0.5, top_k=3, seed=7)
    beam = drawing.changed(Controls(beam_size=4))
    assert (beam.samples, beam.temperature, beam.top_k, beam.seed) == (False, 1.0, 0, 0)
    diverse = GenerationSettings(beam_size=4, beam_groups=2, diversity=0.5, no_repeat_ngram_size=3)
    drawn = diverse.changed(Controls(sample=True))
    assert (drawn.samples, drawn.beam_groups, drawn.no_repeat_ngram_size) == (True, 1, 3)
    greedy = diverse.changed(Controls(temperature=0.0))
    assert (greedy.samples, greedy.beam_size, greedy.beam_groups) == (False, 1, 1)
    assert drawn.beam_size == 4, "what it was"
    for size, groups in ((1, 1), (2, 2), (8, 2)):
        assert diverse.changed(Controls(beam_size=size)).beam_groups == groups
    assert drawing.changed(Controls(beam_size=1)).samples is False
    warm = ContinuationSettings(temperature=0.5, top_k=3)
    assert (warm.changed(Controls(sample=True)).temperature, warm.changed(Controls(sample=True)).top_k) == (
        0.5,
        3,
    )
    assert ContinuationSettings(temperature=0.0).changed(Controls(sample=True)).temperature == 1.0
    assert ContinuationSettings(beam_size=4).changed(Controls(sample=True)).beam_size == 0
    assert warm.changed(Controls(sample=False)).samples is False
    early = GenerationSettings(beam_size=4, early_stopping=True)
    assert early.changed(Controls(heuristic_stopping=True)).early_stopping is False
    late = GenerationSettings(beam_size=4, heuristic_stopping=True)
    for given in ({"early_stopping": True}, {"must_contain": ("a",)}, {"beam_groups": 2, "diversity": 0.5}):
        assert late.changed(Controls(**given)).heuristic_stopping is False
    drafting = ContinuationSettings(draft_model="small", draft_tokens=3)
    for given in ({"beam_size": 2}, {"prompt_lookup": 5}):
        changed = drafting.changed(Controls(**given))
        assert (changed.draft_model, changed.draft_tokens) == (None, None)
    assert drafting.changed(Controls(top_k=3)).draft_model == "small"
    looking = ContinuationSettings(prompt_lookup=4)
    assert looking.changed(Controls(beam_size=2)).prompt_lookup == 0
    assert looking.changed(Controls(draft_model="small")).prompt_lookup == 0
    assert looking.changed(Controls(top_k=3)).prompt_lookup == 4


def test_required_texts_replace_others_and_the_beam_only_if_one_is_given():
    settings = GenerationSettings(beam_size=4, must_contain=("a",))
    assert settings.requiring(("b",)) == GenerationSettings(beam_size=4, must_contain=("b",))
    assert settings.requiring(("b",), beam_of(7)) == GenerationSettings(beam_size=7, must_contain=("b",))


def test_what_is_not_given_stays():
    settings = ContinuationSettings(temperature=0.5, stop=("\n",), ban=("x",))
    assert settings.changed(Controls()) == settings
    assert settings.changed(Controls(seed=3)) == settings.with_(seed=3)


def test_a_greatest_length_below_the_model_s_own_least_rules_that_out():
    settings = GenerationSettings(min_new_tokens=10)
    assert settings.changed(Controls(max_new_tokens=9)).min_new_tokens == 0
    assert settings.changed(Controls(max_new_tokens=10)).min_new_tokens == 10
    assert GenerationSettings().changed(Controls(max_new_tokens=9)).min_new_tokens is None


def test_a_boost_is_a_text_and_a_strength():
    assert boosted("Paris=2.5") == ("Paris", 2.5)
    assert boosted("a=b=-1") == ("a=b", -1.0)
    for wrong in ("Paris", "=2", "Paris=", "Paris=nan", "Paris=inf", "Paris=x"):
        with pytest.raises(ConfigError, match="boost"):
            boosted(wrong)


@pytest.mark.parametrize(
    "name", ["presence_penalty", "frequency_penalty", "repetition_penalty", "temperature"]
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_none_is_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name} is {value}"):
        Controls(**{name: value})


def test_an_end_that_is_no_token_is_refused():
    with pytest.raises(ConfigError, match="end_ids = -3 is not a token"):
        Controls(end_ids=(-3,))
    settings = ContinuationSettings(end_ids=(4, 9), temperature=0.0)
    settings.strategy(tokenizer=Sized(10))
    with pytest.raises(ConfigError, match="end_ids = 9 is not a token: there are 9, counted from 0"):
        settings.strategy(tokenizer=Sized(9))


@dataclasses.dataclass
class Sized:
    """A tokeniser with so many tokens."""

    vocab_size: int

    def encode_words(self, text):
        return []

    def decode(self, ids):
        return ""


@pytest.mark.parametrize("penalty", [None, "none"])
@pytest.mark.parametrize("alpha", [0.0, 9.0])
def test_alpha_without_a_length_penalty_is_refused(penalty, alpha):
    settings = ContinuationSettings(length_penalty=penalty)
    with pytest.raises(ConfigError, match=r"alpha = .* needs length_penalty"):
        settings.changed(Controls(alpha=alpha))
    with pytest.raises(ConfigError, match="'none'"):
        GenerationSettings().changed(Controls(alpha=alpha, length_penalty="none"))
    assert settings.changed(Controls(alpha=alpha, length_penalty="power")).alpha == alpha
    assert GenerationSettings().changed(Controls(alpha=alpha)).alpha == alpha


def test_a_penalty_that_is_switched_off_leaves_the_model_s_alpha_alone():
    settings = GenerationSettings(length_penalty="power", alpha=1.0)
    assert settings.changed(Controls(length_penalty="none")).strategy().length_penalty(7) == 1.0


def test_the_hint_for_an_unknown_search_of_a_model_names_no_option_that_would_not_help():
    for settings, says in ((Controls, True), (GenerationSettings, False), (ContinuationSettings, False)):
        with pytest.raises(ConfigError, match="no search is registered as 'odd'") as caught:
            settings(search="odd")
        assert ("beam_size and sample" in caught.value.hint) == says
