"""The top candidates are those of a stable sort of the whole row, ties included."""

import pytest
import torch

from regard.decoding.ranking import argmax, top_candidates


@pytest.mark.parametrize("vocab", [1, 5, 127, 128, 1000, 1024, 5000, 10_001])
@pytest.mark.parametrize("size", [1, 2, 6, 11])
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
