"""Requests have noise of their own; scores are divided by the length penalty of their name."""

import math

import pytest

from regard.decoding.assembly import score_by
from regard.decoding.hypothesis import Hypothesis, Power, Request, Wu, best_first, noise_of
from regard.decoding.scoring import ForcedScore


def test_the_noise_of_a_request_is_that_of_its_source_and_prefix_wherever_it_stands():
    first, again = (Request(src_len=2, index=index, source=(4, 5), prefix=(6,)) for index in (0, 9))
    assert first.noise == again.noise == noise_of((4, 5), (6,))
    others = [
        Request(src_len=2, source=(4, 6), prefix=(6,)),
        Request(src_len=2, source=(4, 5), prefix=(7,)),
        Request(src_len=2, source=(4, 5)),
        Request(src_len=3, source=(4, 5, 6)),
    ]
    assert len({each.noise for each in (first, *others)}) == 5
    assert all(0 <= each.noise < 2**56 for each in others)


def test_the_noise_of_an_unknown_source_is_its_place():
    assert [Request(src_len=2, index=index).noise for index in (0, 7)] == [0, 7]


def test_a_hash_does_not_mix_up_one_sequence_with_two():
    assert len({noise_of((1, 2)), noise_of((1,), (2,)), noise_of((1, 2), ()), noise_of((), (1, 2))}) == 4


@pytest.mark.parametrize("length", [1, 2, 7, 40])
def test_length_penalties_are_those_of_their_papers(length):
    assert Wu(alpha=0.6)(length) == ((5 + length) / 6) ** 0.6
    assert Power(alpha=0.5)(length) == math.sqrt(length)
    assert Power(alpha=0.0)(length) == Wu(alpha=0.0)(length) == 1.0


def test_a_length_penalty_without_an_exponent_has_the_usual_one():
    assert score_by("wu", None) == Wu(alpha=0.6)
    assert score_by("power", None) == Power(alpha=1.0)
    assert score_by("wu", 0.0) == Wu(alpha=0.0)
    assert score_by("power", 0.3) == Power(alpha=0.3)
    for kind in ("none", None):
        assert score_by(kind, 0.7) == Power(alpha=0.0)


def test_of_equal_scores_the_lower_ids_come_first():
    made = [
        Hypothesis(ids=ids, log_prob=-1.0, score=score, token_log_probs=[])
        for ids, score in (([9], -1.0), ([5], -1.0), ([7], -0.5), ([4], -2.0))
    ]
    assert [each.ids for each in best_first(made, 3)] == [[7], [5], [9]]


def test_what_is_printed_of_a_hypothesis_or_a_score_is_short():
    each = [-0.25] * 500
    hypothesis = Hypothesis(ids=[4], log_prob=-1.0, score=-0.5, token_log_probs=each)
    score = ForcedScore(log_prob=-1.0, num_tokens=500, token_log_probs=each)
    assert repr(hypothesis) == "Hypothesis(ids=[4], log_prob=-1.0, score=-0.5)"
    assert repr(score) == "ForcedScore(log_prob=-1.0, num_tokens=500)"
