"""The statistics of each step agree with its distribution."""

import math

import pytest
import torch

from regard.errors import ConfigError
from regard.inspection.steps import prediction_steps

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -torch.inf], [1.0, 1.0, 1.0, 1.0], [0.0, 3.0, 0.0, 3.0]])


def test_log_probabilities_are_those_of_a_softmax():
    found = prediction_steps(LOGITS, [1, 0, 3])
    expected = LOGITS.log_softmax(dim=-1)
    assert [each.log_prob for each in found] == pytest.approx(expected[[0, 1, 2], [1, 0, 3]].tolist())
    assert [each.id for each in found] == [1, 0, 3]


def test_entropy_is_that_of_the_distribution_and_the_impossible_adds_nothing():
    found = prediction_steps(LOGITS, [1, 0, 3])
    expected = [-sum(p * math.log(p) for p in row if p) for row in LOGITS.softmax(dim=-1).tolist()]
    assert [each.entropy for each in found] == pytest.approx(expected)
    assert found[1].entropy == pytest.approx(math.log(4))


def test_the_most_likely_token_has_rank_1_and_ties_go_to_the_lower_id():
    assert [each.rank for each in prediction_steps(LOGITS, [0, 2, 3])] == [1, 3, 2]
    assert [each.rank for each in prediction_steps(LOGITS, [3, 3, 0])] == [4, 4, 3]


def test_candidates_are_the_most_likely_in_order_of_rank():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randint(0, 5, (6, 300), generator=generator).float()  # with many ties
    for row, each in enumerate(prediction_steps(logits, [0] * 6, candidates=7)):
        assert len(each.candidates) == 7
        for place, candidate in enumerate(each.candidates, start=1):
            again = prediction_steps(logits[[row]], [candidate.id], candidates=1)[0]
            assert again.rank == place
            assert again.log_prob == pytest.approx(candidate.log_prob)


def test_more_candidates_than_tokens_are_all_tokens():
    assert len(prediction_steps(LOGITS, [0, 0, 0], candidates=20)[1].candidates) == 4


def test_nothing_written_is_no_step_and_too_little_is_refused():
    assert prediction_steps(torch.zeros(0, 4), []) == []
    with pytest.raises(ConfigError, match="there are 2 tokens for 3 positions"):
        prediction_steps(LOGITS, [1, 2])
