"""Penalties follow their definitions, row by row; reported log-probabilities stay the model's own."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.hypothesis import Power, Request
from regard.decoding.penalties import FrequencyPenalty, PhraseBoost, PresencePenalty, RepetitionPenalty
from regard.decoding.rules import (
    BannedPhrases,
    BannedTokens,
    ForcedFirstToken,
    GeneratedTokens,
    LengthLimits,
    MinimumLength,
    NoRepeatSourceNGrams,
)
from regard.decoding.sampling import Sampling
from regard.decoding.search import BeamSearch, GreedySearch

VOCAB = 5
HISTORIES = st.integers(0, 7).flatmap(
    lambda length: st.lists(
        st.lists(st.integers(0, VOCAB - 1), min_size=length, max_size=length), min_size=1, max_size=4
    )
)


def ids_of(histories) -> torch.Tensor:
    return torch.tensor(histories, dtype=torch.int64).reshape(len(histories), -1)


def scores_of(histories, seed=0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(len(histories), VOCAB, generator=generator, dtype=torch.float64)


@given(HISTORIES, st.floats(0.5, 3.0), st.booleans())
def test_what_the_text_has_is_weighed_once_by_the_sign_of_its_logit(histories, penalty, shifted):
    logits = scores_of(histories)
    shift = logits.logsumexp(dim=1, keepdim=True) if shifted else None
    log_probs = logits - shift if shift is not None else logits.clone()
    RepetitionPenalty(penalty=penalty)(log_probs, GeneratedTokens(ids_of(histories), shift=shift))
    found = log_probs + shift if shift is not None else log_probs
    for row, history in enumerate(histories):
        for token in range(VOCAB):
            value = logits[row, token].item()
            weighed = value * penalty if value < 0 else value / penalty
            assert found[row, token].item() == pytest.approx(weighed if token in history else value)


@given(HISTORIES, st.floats(-2, 2), st.integers(0, 3))
def test_presence_counts_once_and_frequency_each_time_and_what_was_given_never(histories, penalty, given_):
    logits = scores_of(histories)
    said = GeneratedTokens(ids_of(histories), prefix_lengths=np.array([given_]))
    presence, frequency = logits.clone(), logits.clone()
    PresencePenalty(penalty=penalty)(presence, said)
    FrequencyPenalty(penalty=penalty)(frequency, said)
    for row, history in enumerate(histories):
        counts = Counter(history[given_:])
        for token in range(VOCAB):
            value = logits[row, token].item()
            once = value - penalty * (counts[token] > 0)
            assert presence[row, token].item() == pytest.approx(once, abs=1e-6)  # a penalty is a float32
            assert frequency[row, token].item() == pytest.approx(value - penalty * counts[token])


PHRASES = st.lists(st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=3).map(tuple), min_size=1)


@given(HISTORIES, PHRASES)
def test_a_token_that_would_complete_a_banned_phrase_is_forbidden_and_no_other(histories, phrases):
    log_probs = torch.zeros(len(histories), VOCAB)
    BannedPhrases(phrases=tuple(phrases))(log_probs, GeneratedTokens(ids_of(histories)))
    for row, history in enumerate(histories):
        for token in range(VOCAB):
            completes = any(tuple([*history, token][-len(phrase) :]) == phrase for phrase in phrases)
            assert log_probs[row, token] == (-torch.inf if completes else 0)


@given(HISTORIES, PHRASES, st.floats(-3, 3))
def test_the_next_token_of_a_boosted_phrase_is_boosted_once(histories, phrases, strength):
    log_probs = torch.zeros(len(histories), VOCAB, dtype=torch.float64)
    PhraseBoost(phrases=tuple(phrases), strength=strength)(log_probs, GeneratedTokens(ids_of(histories)))
    for row, history in enumerate(histories):
        for token in range(VOCAB):
            due = any(
                phrase[place] == token and (place == 0 or tuple(history[-place:]) == phrase[:place])
                for phrase in phrases
                for place in range(len(phrase))
            )
            assert log_probs[row, token].item() == (strength if due else 0)


@given(st.integers(1, 3), HISTORIES, st.lists(st.lists(st.integers(0, VOCAB - 1), max_size=6), min_size=4))
def test_no_n_gram_of_its_own_source_is_generated(size, histories, sources):
    longest = max(map(len, sources))
    padded = np.full((len(sources), longest), -1)
    for row, source in zip(padded, sources, strict=True):
        row[: len(source)] = source
    sentence = np.arange(len(histories))[::-1].copy()
    log_probs = torch.zeros(len(histories), VOCAB)
    said = GeneratedTokens(ids_of(histories), sources=lambda: padded, sentence=sentence)
    NoRepeatSourceNGrams(size=size)(log_probs, said)
    for row, history in enumerate(histories):
        source = sources[sentence[row]]
        known = {tuple(source[place : place + size]) for place in range(len(source) - size + 1)}
        for token in range(VOCAB):
            last = [*history, token][-size:]
            assert log_probs[row, token] == (-torch.inf if tuple(last) in known else 0)


@pytest.mark.parametrize(
    ("rule", "raises"),
    [
        *((RepetitionPenalty(penalty=value), value < 1) for value in (0.9, 1.0, 1.1)),
        *((PresencePenalty(penalty=value), value < 0) for value in (-0.1, 0.0, 0.1)),
        *((FrequencyPenalty(penalty=value), value < 0) for value in (-0.1, 0.0, 0.1)),
        *((PhraseBoost(phrases=((4,),), strength=value), value > 0) for value in (-0.1, 0.0, 0.1)),
        (ForcedFirstToken(token=4), False),
        (BannedTokens(ids=(4,)), False),
    ],
    ids=str,
)
def test_only_a_rule_that_can_raise_a_score_keeps_a_search_from_ending_early(rule, raises):
    assert rule.raises is raises
    assert rule.changes_scores is not isinstance(rule, BannedTokens)


@pytest.mark.parametrize("search", [GreedySearch, BeamSearch], ids=["greedy", "beam"])
def test_a_forced_first_token_costs_nothing_and_has_the_log_probability_of_the_model(make_table, search):
    table = make_table(vocab=8)
    strategy = search(limits=LIMITS, rules=(*ALWAYS, ForcedFirstToken(token=6)))
    for source, (found, *_) in zip(SOURCES, strategy(table.read(SOURCES), ask(SOURCES)), strict=True):
        assert found.ids[0] == 6
        expected = table.hypothesis(source, found.ids, lambda length: 1.0)
        assert found.token_log_probs == pytest.approx(expected.token_log_probs, abs=1e-6)
        assert found.log_prob == pytest.approx(expected.log_prob, abs=1e-6)
        if search is BeamSearch:  # whose score is what rules make of it
            assert found.score == pytest.approx(expected.log_prob - expected.token_log_probs[0], abs=1e-6)


RULES = [
    RepetitionPenalty(penalty=1.5),
    PresencePenalty(penalty=0.7),
    FrequencyPenalty(penalty=0.4),
    PhraseBoost(phrases=((4, 5), (6,)), strength=1.5),
    BannedPhrases(phrases=((4, 5), (6,))),
    NoRepeatSourceNGrams(size=1),
]
LIMITS = LengthLimits(ratio=0.0, offset=6)
SOURCES = [[4 + number % 4, number % 8, 5] for number in range(9)]
ALWAYS = (BannedTokens(ids=(0, 2)), MinimumLength(length=5, eos_id=3))


def ask(sources) -> list[Request]:
    return [
        Request(src_len=len(source), index=index, source=tuple(source))
        for index, source in enumerate(sources)
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("search", [GreedySearch, Sampling, BeamSearch], ids=["greedy", "sampling", "beam"])
def test_scores_stay_the_model_s_and_neighbours_do_not_matter(make_table, rule, search):
    strategy = search(limits=LIMITS, rules=(rule, *ALWAYS))
    table = make_table(vocab=8)
    together = strategy(table.read(SOURCES), ask(SOURCES))
    for source, (hypothesis, *_) in zip(SOURCES, together, strict=True):
        expected = table.hypothesis(source, hypothesis.ids, lambda length: 1.0)
        assert hypothesis.token_log_probs == pytest.approx(expected.token_log_probs, abs=1e-6)
        assert hypothesis.log_prob == pytest.approx(expected.log_prob, abs=1e-6)
    alone = [strategy(make_table(vocab=8).read([each]), ask([each]))[0] for each in SOURCES]
    assert together == alone
    free = search(limits=LIMITS, rules=ALWAYS)(table.read(SOURCES), ask(SOURCES))
    assert [each[0].ids for each in free] != [each[0].ids for each in together], "else it does nothing here"


@pytest.mark.parametrize("rule", RULES[:4], ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_wide_beam_finds_what_is_best_as_weighed(make_table, exhaustive_search, rule, alpha):
    """Of all translations; a weight may raise scores too, which must not end the search early."""
    table, penalty = make_table(vocab=7), Power(alpha=alpha)
    search = BeamSearch(
        size=4**4, n_best=4, rules=(rule, BannedTokens(ids=(0, 2))), length_penalty=penalty,
        limits=LengthLimits(ratio=0.0, offset=4),
    )  # fmt: skip
    found = search(table.read([[4]]), [Request(src_len=1)])[0]

    def weighed(ids) -> float:
        total = 0.0
        for place, token in enumerate([*ids, 3]):
            log_probs = table.log_probs((4,), (2, *ids[:place]))[None].double()
            rule(log_probs, GeneratedTokens(ids_of([ids[:place]])))
            total += log_probs[0, token].item()
        return total / penalty(len(ids) + 1)

    every = exhaustive_search(table, [4], penalty=penalty, n_best=10**6, lengths=range(5))
    best = sorted((-weighed(each.ids), each.ids) for each in every)[:4]
    assert [each.ids for each in found] == [ids for _, ids in best]
    assert [each.score for each in found] == pytest.approx([-score for score, _ in best], abs=1e-5)
