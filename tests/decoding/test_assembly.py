"""Each control becomes its part of the search, with its value; one that is not set becomes nothing."""

import pytest

from regard.decoding.assembly import assembled, filters_of, rules_of
from regard.decoding.banned_words import BannedWords
from regard.decoding.constrained import ConstrainedBeamSearch
from regard.decoding.controls import Controls
from regard.decoding.diverse import DiverseBeamSearch
from regard.decoding.hypothesis import Power
from regard.decoding.penalties import FrequencyPenalty, PhraseBoost, PresencePenalty, RepetitionPenalty
from regard.decoding.rules import (
    BannedPhrases,
    BannedTokens,
    ForcedFirstToken,
    LengthLimits,
    MinimumLength,
    NoRepeatNGrams,
    NoRepeatSourceNGrams,
)
from regard.decoding.sampling import MinP, Sampling, Temperature, TopK, TopP, Typical
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.special_tokens import SpecialTokenIds
from regard.decoding.speculative import PromptLookup, SpeculativeDecoding
from regard.errors import ConfigError

MARKS = SpecialTokenIds(pad_id=0, bos_id=2, eos_id=3)


class Letters:
    """A tokeniser of one token a letter."""

    vocab_size = 40

    def encode_words(self, text):
        return [[ord(letter) - 87 for letter in text]]

    def decode(self, ids):
        return "".join(chr(87 + each) for each in ids)


def search_of(controls, marks=MARKS, tokenizer=None, **settings):
    common = {"never": (0, 2), "n_best": 1, "limits": LengthLimits(), "least": 0, **settings}
    return assembled(controls, special=marks, length_penalty=Power(alpha=0.0), tokenizer=tokenizer, **common)


def test_a_hypothesis_of_the_greatest_length_has_an_end_unless_it_is_to_be_cut_off():
    for controls in (Controls(), Controls(sample=True), Controls(beam_size=3)):
        assert (search_of(controls).cut, search_of(controls, cut=True).cut) == (False, True)


@pytest.mark.parametrize(
    ("given", "filters"),
    [
        ({}, ()),
        ({"temperature": 0.5}, (Temperature(temperature=0.5),)),
        ({"top_k": 3}, (TopK(k=3),)),
        ({"top_p": 0.4}, (TopP(p=0.4),)),
        ({"min_p": 0.1}, (MinP(p=0.1),)),
        ({"typical_p": 0.3}, (Typical(p=0.3),)),
        (
            {"typical_p": 0.3, "min_p": 0.1, "top_p": 0.4, "top_k": 3, "temperature": 2.0},
            (Temperature(temperature=2.0), TopK(k=3), TopP(p=0.4), MinP(p=0.1), Typical(p=0.3)),
        ),
    ],
)
def test_filters_are_applied_in_the_order_of_transformers(given, filters):
    controls = Controls(sample=True, **given)
    assert filters_of(controls) == filters
    search = search_of(Controls(sample=True, seed=7, **given))
    assert isinstance(search, Sampling)
    assert (search.filters, search.seed) == (filters, 7)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"repetition_penalty": 1.3}, RepetitionPenalty(penalty=1.3)),
        ({"presence_penalty": 0.5}, PresencePenalty(penalty=0.5)),
        ({"frequency_penalty": 0.5}, FrequencyPenalty(penalty=0.5)),
        ({"boost": ("ab=2",)}, PhraseBoost(phrases=((10, 11),), strength=2.0)),
        ({"no_repeat_ngram_size": 2}, NoRepeatNGrams(size=2)),
        ({"no_repeat_source_ngram_size": 3}, NoRepeatSourceNGrams(size=3)),
    ],
)
def test_what_is_weighed_and_forbidden_is_a_rule_of_each_control(given, rule):
    rules = rules_of(Controls(**given), MARKS, (0, 2), 0, Letters())
    assert set(rules) == {BannedTokens(ids=(0, 2)), rule}


def test_a_ban_forbids_the_usual_tokens_of_a_text_and_all_others_that_spell_it():
    tokenizer = Letters()
    assert rules_of(Controls(ban=("ab", "c")), MARKS, (0, 2), 0, tokenizer) == (
        BannedTokens(ids=(0, 2)),
        BannedPhrases(phrases=((10, 11), (12,))),
        BannedWords(("ab", "c"), tokenizer),
    )


def test_a_text_that_the_usual_tokens_cannot_spell_is_banned_in_all_others():
    tokenizer = Letters()
    tokenizer.unk_id = ord("\N{SNOWMAN}") - 87
    assert rules_of(Controls(ban=("ab", "\N{SNOWMAN}")), MARKS, (), 0, tokenizer)[1:] == (
        BannedPhrases(phrases=((10, 11),)),
        BannedWords(("ab", "\N{SNOWMAN}"), tokenizer),
    )
    with pytest.raises(ConfigError, match=r"ban = \('a',\) needs a tokeniser"):
        rules_of(Controls(ban=("a",)), MARKS, (), 0, None)


def test_white_space_is_banned_where_the_model_has_a_token_for_it():
    tokenizer, space = Letters(), ord(" ") - 87
    assert rules_of(Controls(ban=(" ",)), MARKS, (), 0, tokenizer)[1] == BannedPhrases(phrases=((space,),))
    tokenizer.unk_id = space
    with pytest.raises(ConfigError, match="ban = ' ': this model has no tokens for it"):
        rules_of(Controls(ban=(" ",)), MARKS, (), 0, tokenizer)


def test_banned_ids_are_forbidden_as_they_are_given():
    for ids in (("5", "7 6"), (5, "7 6")):
        rules = rules_of(Controls(ban_ids=ids), MARKS, (0,), 0, Letters())
        assert rules[1] == BannedPhrases(phrases=((5,), (7, 6)))
    with pytest.raises(ConfigError, match=f"{Letters.vocab_size} is not a token"):
        rules_of(Controls(ban_ids=(str(Letters.vocab_size),)), MARKS, (0,), 0, Letters())


def test_a_least_length_and_a_forced_first_token_are_rules_too_the_forced_one_last():
    marks = SpecialTokenIds(pad_id=0, bos_id=2, eos_id=3, ends=(9,), first=5)
    rules = rules_of(Controls(), marks, (0,), 4, None)
    assert rules == (
        BannedTokens(ids=(0,)),
        MinimumLength(length=4, eos_id=3, others=(9,)),
        ForcedFirstToken(token=5),
    )


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({}, GreedySearch),
        ({"beam_size": 1}, GreedySearch),
        ({"beam_size": 2}, BeamSearch),
        ({"sample": True}, Sampling),
        ({"beam_size": 4, "must_contain": ("ab",)}, ConstrainedBeamSearch),
        ({"prompt_lookup": 3}, SpeculativeDecoding),
    ],
)
def test_the_kind_of_search(given, kind):
    assert type(search_of(Controls(**given), tokenizer=Letters())) is kind


def test_the_numbers_of_a_beam_are_those_given():
    beam = search_of(Controls(beam_size=6, early_stopping=True), n_best=2)
    assert (beam.size, beam.n_best, beam.early_stopping, beam.heuristic_stopping) == (6, 2, True, False)
    assert search_of(Controls(beam_size=6, heuristic_stopping=True)).heuristic_stopping
    diverse = search_of(Controls(beam_size=6, beam_groups=3, diversity=0.5))
    assert isinstance(diverse, DiverseBeamSearch)
    assert (diverse.size, diverse.groups, diverse.diversity) == (6, 3, 0.5)


def test_a_text_that_stops_needs_a_tokeniser():
    with pytest.raises(ConfigError, match=r"stop = \('ab',\) needs a tokeniser"):
        search_of(Controls(stop=("ab",)))
    stop = search_of(Controls(stop=("ab",)), tokenizer=Letters()).stop
    assert stop([], [9, 10, 11])
    assert not stop([], [9, 10])


def test_guesses_are_as_many_as_are_asked_for_four_of_a_smaller_model():
    assert search_of(Controls(prompt_lookup=3)).tokens == 3
    draft = PromptLookup()
    assert search_of(Controls(draft_model="small"), drafter=draft).tokens == 4
    assert search_of(Controls(draft_model="small", draft_tokens=6), drafter=draft).tokens == 6


@pytest.mark.parametrize(
    ("name", "marks"), [("end_ids", {"ends": (9, 40)}), ("forced_bos_id", {"first": 40})]
)
def test_a_token_beyond_the_vocabulary_is_refused_and_its_last_is_not(name, marks):
    with pytest.raises(ConfigError, match=f"{name} = 40 is not a token: there are 40"):
        search_of(Controls(), SpecialTokenIds(pad_id=0, bos_id=2, eos_id=3, **marks), Letters())
    last = {key: (9, 39) if isinstance(value, tuple) else 39 for key, value in marks.items()}
    search_of(Controls(), SpecialTokenIds(pad_id=0, bos_id=2, eos_id=3, **last), Letters())
