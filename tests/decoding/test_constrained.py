"""Constrained beams contain the required phrases; a large enough beam finds the best such output."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.constrained import ConstrainedBeamSearch, Match, NoRoom, _matched
from regard.decoding.hypothesis import Power, Request, Wu
from regard.decoding.penalties import PresencePenalty
from regard.decoding.rules import BannedTokens, LengthLimits, NoRepeatNGrams
from regard.errors import ConfigError

EOS = 3
SOURCES = [[4, 5], [6, 4, 4], [5], []]
RULES = (BannedTokens(ids=(0, 2)),)
CONSTRAINTS = [
    (((4,),),),
    (((5, 4),),),
    (((5, 5, 4),),),
    (((4, 1), (5,)),),
    (((1, 4),), ((4, 5),)),  # 1 4 5 meets both
    (((4,), (1, 1)), ((5, 4),)),
]


def ask(sources, **more) -> list[Request]:
    return [Request(src_len=len(source), index=index, **more) for index, source in enumerate(sources)]


def contains(ids, phrase) -> bool:
    return any(tuple(ids[place : place + len(phrase)]) == phrase for place in range(len(ids)))


def meets(ids, constraints) -> bool:
    return all(any(contains(ids, phrase) for phrase in phrases) for phrases in constraints)


def search_of(constraints, *, beam_size, n_best=1, longest=4, **more) -> ConstrainedBeamSearch:
    limits = LengthLimits(ratio=0.0, offset=longest)
    return ConstrainedBeamSearch(
        constraints=constraints, size=beam_size, n_best=n_best, limits=limits, **{"rules": RULES, **more}
    )


@pytest.mark.parametrize("constraints", CONSTRAINTS, ids=str)
@pytest.mark.parametrize("penalty", [Power(alpha=0.0), Wu(alpha=0.6), Power(alpha=2.0)], ids=str)
def test_a_beam_wide_enough_finds_the_best_of_all_that_meet_the_constraints(
    make_table, exhaustive_search, constraints, penalty
):
    table = make_table(vocab=6)
    search = search_of(constraints, beam_size=3**4, n_best=5, length_penalty=penalty)
    found = search(table.read(SOURCES), ask(SOURCES))
    for source, hypotheses in zip(SOURCES, found, strict=True):
        best = exhaustive_search(
            table, source, penalty=penalty, n_best=5, lengths=range(5),
            allowed=lambda ids: meets(ids, constraints),
        )  # fmt: skip
        assert [each.ids for each in hypotheses] == [each.ids for each in best]
        for ours, theirs in zip(hypotheses, best, strict=True):
            assert ours.score == pytest.approx(theirs.score, abs=1e-6)
            assert ours.token_log_probs == pytest.approx(theirs.token_log_probs, abs=1e-6)


@pytest.mark.parametrize("constraints", CONSTRAINTS, ids=str)
@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_a_beam_of_any_size_has_the_required_phrases(make_table, constraints, beam_size):
    for seed in range(4):
        table = make_table(vocab=30, seed=seed, sharpness=4.0)  # required phrases are often very unlikely
        search = search_of(constraints, beam_size=beam_size, longest=6)
        for (hypothesis,) in search(table.read(SOURCES), ask(SOURCES)):
            assert meets(hypothesis.ids, constraints)
            assert len(hypothesis.ids) <= 6


def test_what_was_given_does_not_count(make_table):
    requests = ask(SOURCES, prefix=(4, 5))
    search = search_of((((4, 5),),), beam_size=4, longest=8)
    for (hypothesis,) in search(make_table().read(SOURCES), requests):
        assert tuple(hypothesis.ids[:2]) == (4, 5)
        assert contains(hypothesis.ids[2:], (4, 5))


def test_it_depends_on_no_neighbour_and_goes_with_other_rules(make_table):
    sources = [[4 + number % 5, number] for number in range(10)]
    rules = (*RULES, NoRepeatNGrams(size=2))
    search = search_of(CONSTRAINTS[5], beam_size=5, n_best=2, longest=7, rules=rules)
    together = search(make_table().read(sources), ask(sources))
    assert together == [search(make_table().read([each]), ask([each]))[0] for each in sources]
    for hypotheses in together:
        for each in hypotheses:
            pairs = list(zip(each.ids, each.ids[1:], strict=False))
            assert len(pairs) == len(set(pairs))
            assert meets(each.ids, CONSTRAINTS[5])


@given(st.lists(st.integers(0, 1), min_size=1, max_size=6), st.lists(st.integers(0, 1), max_size=20))
def test_what_is_matched_is_the_longest_beginning_of_the_phrase_that_the_text_ends_with(phrase, text):
    phrase, matched = tuple(phrase), (0,)
    for length in range(1, len(text) + 1):
        matched = _matched((phrase,), matched, text[length - 1])
        if contains(text[:length], phrase):
            assert matched is None
            return
        lengths = [n for n in range(len(phrase)) if tuple(text[max(0, length - n) : length]) == phrase[:n]]
        assert matched == (max(lengths),)


@pytest.mark.parametrize(
    ("text", "met", "bank", "wanted"),
    [
        ((), 0, 0, {4, 6, 7}),
        ((1,), 0, 0, {4, 6, 7}),
        ((4,), 0, 1, {5, 6, 7}),
        ((4, 1), 0, 0, {4, 6, 7}),
        ((4, 5), 2, 2, {6, 7}),
        ((4, 5, 7, 8), 2, 4, {6, 9}),
        ((4, 5, 7, 6), 5, 5, set()),  # of two phrases the longer one counts
    ],
    ids=str,
)
def test_a_text_is_in_the_bank_of_the_tokens_that_it_has_matched(text, met, bank, wanted):
    match = Match.of((((4, 5),), ((6,), (7, 8, 9))))
    for token in text:
        match = match.after(token)
    assert (match.met, match.bank, match.wanted) == (met, bank, wanted)
    assert bool(match.unmet) == bool(wanted)


def test_what_cannot_win_is_not_waited_for(make_table):
    """Neither is what could only have the score of the best that has ended."""
    table = make_table(vocab=6)
    table.known[(4,), (2,)] = torch.tensor([0, 0, 0, 0, 1.0, 0]).log()
    table.known[(4,), (2, 4)] = torch.tensor([0, 0, 0, 0.5, 0, 0.5]).log()
    search = search_of(CONSTRAINTS[0], beam_size=2)
    assert search(table.read([[4]]), ask([[4]]))[0][0].ids == [4]
    assert len(table.sizes) == 2


def test_an_end_that_cannot_be_takes_the_place_of_no_other_token(make_table):
    """Of a text without 4 4 and 5 5 a beam of two keeps its best token of each bank: 4, and here 1."""
    table = make_table(vocab=6)
    after = {(): {EOS: 0.4, 4: 0.25, 5: 0.2, 1: 0.15}, (4,): {4: 0.1, 1: 0.9}, (5,): {5: 0.1, 1: 0.9}}
    after |= {(1,): {4: 1.0}, (1, 4): {4: 1.0}, (1, 4, 4): {EOS: 1.0}, (4, 4): {EOS: 1.0}, (5, 5): {EOS: 1.0}}
    for said, shares in after.items():
        table.known[(4,), (2, *said)] = torch.tensor([shares.get(token, 0.0) for token in range(6)]).log()
    search = search_of((((4, 4), (5, 5)),), beam_size=2)
    assert search(table.read([[4]]), ask([[4]]))[0][0].ids == [1, 4, 4]


@pytest.mark.parametrize("strength", [2.0, -2.0])
def test_rules_that_raise_scores_lose_nothing(make_table, exhaustive_search, strength):
    """No hypothesis is dropped because its score could not rise."""
    table = make_table(vocab=6)
    constraints = (((4,),),)
    rules = (*RULES, PresencePenalty(penalty=strength))
    search = search_of(constraints, beam_size=3**4, n_best=3, rules=rules, length_penalty=Power(alpha=1.0))
    wide = search_of(constraints, beam_size=3**4, n_best=3**4, rules=rules, length_penalty=Power(alpha=1.0))
    found, all_of_them = (each(table.read(SOURCES), ask(SOURCES)) for each in (search, wide))
    assert found == [hypotheses[:3] for hypotheses in all_of_them]


def test_just_enough_room_will_do(make_table):
    search = search_of((((5, 5, 4),), ((1,), (4, 1))), beam_size=2, longest=5)
    for (hypothesis,) in search(make_table().read(SOURCES), ask(SOURCES)):
        assert meets(hypothesis.ids, search.constraints)
    with pytest.raises(ConfigError, match="needs 5 tokens, but at most 4"):
        search_of(search.constraints, beam_size=2, longest=4)(make_table().read([[4]]), ask([[4]]))


def test_too_little_room_is_refused_with_both_numbers(make_table):
    with pytest.raises(ConfigError, match="must_contain needs 3 tokens, but at most 2") as raised:
        search_of((((5, 5, 4),),), beam_size=2, longest=2)(make_table().read([[4]]), ask([[4]]))
    assert "max_new_tokens" in raised.value.hint
    with pytest.raises(ConfigError, match="needs 3 tokens, but at most 2"):  # after a prefix
        search_of((((5, 5, 4),),), beam_size=2, longest=3)(make_table().read([[4]]), ask([[4]], prefix=(5,)))
    with pytest.raises(ConfigError, match="more than the size of the beam"):
        search_of(CONSTRAINTS[0], beam_size=2, n_best=3)
    for empty in (((),), (((),),)):
        with pytest.raises(ConfigError, match="cannot be met"):
            search_of(empty, beam_size=2)
        with pytest.raises(ConfigError, match="cannot be met"):
            search_of((), beam_size=2)(make_table().read([[4]]), ask([[4]], required=empty))
    with pytest.raises(ConfigError, match="cannot be met"):
        search_of((), beam_size=2)(make_table().read([[4]]), ask([[4]]))


@pytest.mark.parametrize("of_all", [(), (((5,), (1, 4)),)], ids=str)
def test_a_request_has_what_it_requires_as_if_the_search_required_it_of_all(make_table, of_all):
    own = [CONSTRAINTS[number % len(CONSTRAINTS)] for number in range(len(SOURCES))]
    requests = [replace(each, required=needed) for each, needed in zip(ask(SOURCES), own, strict=True)]
    search = search_of(of_all, beam_size=4, n_best=2, longest=7)
    found = search(make_table().read(SOURCES), requests)
    for source, needed, hypotheses in zip(SOURCES, own, found, strict=True):
        other = search_of((*of_all, *needed), beam_size=4, n_best=2, longest=7)
        assert hypotheses == other(make_table().read([source]), ask([source]))[0]


def test_a_request_without_room_is_named(make_table):
    one, other = ask([[4], [5]])
    with pytest.raises(NoRoom) as raised:
        search_of((((4,),),), beam_size=2, longest=2)(
            make_table().read([[4], [5]]), [one, replace(other, required=(((5, 5),),))]
        )
    assert raised.value.index == 1


@pytest.mark.parametrize("beam_size", [1, 3, 6])
def test_a_search_that_stops_early_has_what_is_required_too(make_table, beam_size):
    search = search_of(CONSTRAINTS[0], beam_size=beam_size, n_best=beam_size, longest=6, early_stopping=True)
    table = make_table(vocab=7)
    found = search(table.read(SOURCES), ask(SOURCES))
    for hypotheses in found:
        assert hypotheses
        assert all(meets(each.ids, CONSTRAINTS[0]) for each in hypotheses)
    assert found == [search(make_table(vocab=7).read([each]), ask([each]))[0] for each in SOURCES]


def stops_at_five(prefix, generated):
    return generated[-1] == 5


@pytest.mark.parametrize("size", [3**4, 5])
def test_a_stop_ends_what_meets_the_constraints_drops_the_rest_and_changes_no_other(make_table, size):
    """The best of all texts with a 4 that end by their only 5 or by the end token."""
    table, longest = make_table(vocab=7), 3
    search = search_of((((4,),),), beam_size=size, n_best=min(size, 6), longest=longest, stop=stops_at_five)
    words = [token for token in range(7) if token not in (0, 2, EOS)]
    for source, found in zip(SOURCES, search(table.read(SOURCES), ask(SOURCES)), strict=True):
        every = {}
        for length in range(longest + 1):
            for ids in itertools.product(words, repeat=length):
                if 4 in ids and 5 not in ids[:-1]:
                    each = table.hypothesis(source, ids, lambda length: 1.0).token_log_probs
                    every[ids] = sum(each[:-1] if ids[-1] == 5 else each)
        best = sorted(every, key=lambda ids: -every[ids])[: len(found)]
        assert all(each.score == pytest.approx(every[tuple(each.ids)], abs=1e-6) for each in found)
        if size > 5:
            assert [tuple(each.ids) for each in found] == best


class Sentence:
    """A stepper of a model that outputs 4 5 6 and the end; 6 is final punctuation, anything else unlikely."""

    def start(self, src_ids, src_lengths):
        self.said = [()] * len(src_ids)

    def step(self, ids):
        self.said = [(*said, token) for said, token in zip(self.said, ids.tolist(), strict=True)]
        return torch.stack([self.next(tuple(each for each in said[1:] if each < 7)) for said in self.said])

    def next(self, said):
        scores = torch.full((9,), -6.0)  # a required token costs as much anywhere, but less after the end
        scores[7] = -1.0 if 6 in said else -6.0
        scores[[4, 5, 6, EOS][min(len(said), 3)]] = 0.0
        return scores.log_softmax(dim=0)

    def select(self, rows):
        self.said = [self.said[row] for row in rows.tolist()]


@pytest.mark.parametrize("beam_size", [2, 5])
def test_a_required_phrase_is_not_appended_after_the_final_punctuation(beam_size):
    def found(**more):
        stepper = Sentence()
        stepper.start(torch.zeros(1, 1), torch.ones(1))
        search = search_of((((7,),),), beam_size=beam_size, longest=6, **more)
        return search(stepper, ask([[4]]))[0][0].ids

    assert found() == [4, 5, 6, 7]
    ids = found(sentence_end=lambda ids: ids[-1] == 6)
    assert 7 in ids[: ids.index(6)]
    assert found(sentence_end=lambda ids: True)  # all that is found, if nothing else is


class Continued(Sentence):
    """A stepper of a model that outputs 4 6, and then the end (0.5) or another 5 (0.4)."""

    def next(self, said):
        next_tokens = {(): {4: 1.0}, (4,): {6: 1.0}, (6,): {EOS: 0.5, 5: 0.4}}
        scores = torch.full((9,), -torch.inf)
        for token, probability in next_tokens.get(said[-1:], {EOS: 1.0}).items():
            scores[token] = math.log(probability)
        return scores.log_softmax(dim=0)


def test_as_many_hypotheses_as_asked_for_are_found_though_sentences_are_ended():
    stepper = Continued()
    stepper.start(torch.zeros(1, 1), torch.ones(1))
    phrases = (((4, 6),),)
    search = search_of(phrases, beam_size=2, longest=6, n_best=2, sentence_end=lambda ids: ids[-1] == 6)
    assert [each.ids for each in search(stepper, ask([[4]]))[0]] == [[4, 6], [4, 6, 5]]


class Repeater(Sentence):
    """A stepper of a model that may say its sentence again; 6 is final punctuation."""

    def next(self, said):
        word = [4, 5, 6][len(said) % 3]
        scores = torch.full((9,), -6.0)
        scores[word] = -1.0
        scores[EOS if said[-1:] == (6,) else word] = 0.0
        return scores.log_softmax(dim=0)


@pytest.mark.parametrize("beam_size", [1, 5])
def test_a_sentence_that_the_model_would_end_is_not_said_again_for_a_better_mean(beam_size):
    def found(**more):
        stepper = Repeater()
        stepper.start(torch.zeros(1, 1), torch.ones(1))
        search = search_of(
            (((7,),),), beam_size=beam_size, longest=12, length_penalty=Power(alpha=1.0), **more
        )
        return search(stepper, ask([[4]]))[0][0].ids

    assert found().count(6) > 1
    assert found(sentence_end=lambda ids: ids[-1] == 6).count(6) == 1
