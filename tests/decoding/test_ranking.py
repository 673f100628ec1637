"""The top candidates are those of a stable sort of the whole row, ties included."""

import itertools

import numpy as np
import pytest
import torch

from regard.decoding.ranking import TopCandidates, argmax, top_candidates, without, without_choice
from regard.errors import RunError


@pytest.mark.parametrize("vocab", [1, 5, 127, 128, 1000, 1024, 5000, 10_001])
@pytest.mark.parametrize("size", [1, 2, 4, 6, 11])
@pytest.mark.parametrize("levels", [3, 50, 10**9])
def test_top_candidates_are_the_head_of_a_stable_sort(vocab, size, levels):
    generator = torch.Generator().manual_seed(vocab + size)
    log_probs = -torch.randint(levels, (9, vocab), generator=generator).float() / levels
    log_probs[3] = -torch.inf
    log_probs[4, 1:] = -torch.inf
    values, ids = top_candidates(log_probs, size)
    expected, places = log_probs.sort(dim=1, descending=True, stable=True)
    assert torch.equal(torch.from_numpy(values), expected[:, :size].double())
    finite = expected[:, :size].isfinite()
    assert torch.equal(torch.from_numpy(ids)[finite], places[:, :size][finite])


@pytest.mark.parametrize("best", [[], [7]], ids=["alone", "after a better one"])
def test_two_equal_candidates_come_in_the_order_of_their_ids_wherever_they_are(best):
    for one, other in itertools.combinations({*range(12)} - {*best}, 2):
        log_probs = torch.full((1, 12), -2.0)
        log_probs[0, [one, other]] = -1.0
        log_probs[0, best] = 0.0
        for ranked in (top_candidates, lambda log_probs, size: TopCandidates(size)(log_probs)):
            assert ranked(log_probs, 2 + len(best))[1].tolist() == [[*best, one, other]]


def test_nan_comes_first_so_that_it_is_seen():
    log_probs = torch.randn(4, 3000)
    log_probs[2, 1777] = torch.nan
    values, _ = top_candidates(log_probs, 3)
    assert torch.equal(torch.from_numpy(values).isnan().any(dim=1), torch.tensor([False, False, True, False]))


@pytest.mark.parametrize("vocab", [1, 5, 600])
@pytest.mark.parametrize("levels", [1, 3, 50])
def test_the_most_probable_token_is_the_top_candidate(vocab, levels):
    log_probs = torch.randint(-levels, 0, (7, vocab)).float()
    for one, other in zip(argmax(log_probs), top_candidates(log_probs, 1), strict=True):
        assert (one == other).all()


def candidates(values, ids):
    return np.array(values, np.float64), np.array(ids, np.int64)


def test_candidates_that_are_banned_are_left_out_and_the_others_keep_their_order():
    values, ids = candidates([[-1, -2, -3, -4], [-1, -2, -3, -4]], [[5, 7, 6, 8], [7, 5, 8, 9]])
    kept, tokens = without([5, 6], 2, values, ids)
    assert (kept.tolist(), tokens.tolist()) == ([[-2, -4], [-1, -3]], [[7, 8], [7, 8]])
    kept, tokens = without([], 2, values, ids)
    assert (kept.tolist(), tokens.tolist()) == ([[-1, -2], [-1, -2]], [[5, 7], [7, 5]])


def test_where_all_but_one_candidate_is_banned_the_rest_is_impossible():
    kept, tokens = without([5, 6], 2, *candidates([[-1, -2, -3]], [[5, 7, 6]]))
    assert kept.tolist() == [[-2, -np.inf]]
    assert tokens[0, 0] == 7


def test_a_row_is_stuck_where_its_best_token_is_impossible():
    values = np.array([[-1, -np.inf], [-np.inf, -np.inf], [-np.inf, -np.inf], [-3, -4]])
    assert without_choice(np.array([0, 1, 3]), values).tolist() == [1], "a spare row is none of these"


@pytest.mark.parametrize("place", [0, 1])
def test_nan_in_a_row_of_a_hypothesis_is_an_error_and_in_a_spare_row_it_is_not(place):
    values, others = np.array([[-1.0, -2.0], [-1.0, -2.0]]), np.array([-3.0, -3.0])
    live = np.array([1])
    for each in (values[:, place], others):
        before, each[0] = each[0], np.nan
        assert without_choice(live, values, others).tolist() == []
        each[:] = before, np.nan
        with pytest.raises(RunError, match="NaN"):
            without_choice(live, values, others)
        each[1] = before
