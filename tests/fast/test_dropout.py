"""Dropout: the right share, the right scale, the right moments."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.fast.dropout import FastDropout, fast_dropout


@pytest.mark.parametrize("p", [0.0, 0.1, 0.3, 0.5, 0.9])
def test_the_share_that_is_dropped_is_p_and_the_mean_stays(p):
    torch.manual_seed(0)
    dropped = fast_dropout(torch.ones(1_000_000), p)
    assert abs((dropped == 0).float().mean().item() - p) < 0.002
    assert dropped.mean().item() == pytest.approx(1, abs=0.01)
    assert dropped.unique().numel() == (1 if p == 0 else 2)


def test_neighbours_of_one_draw_are_dropped_independently():
    torch.manual_seed(0)
    kept = (fast_dropout(torch.ones(400_000), 0.5) != 0).view(-1, 4).float()
    correlation = torch.corrcoef(kept.T) - torch.eye(4)
    assert correlation.abs().max() < 0.01


@given(shape=st.lists(st.integers(0, 5), max_size=4))
def test_any_shape_can_be_dropped_from(shape):
    assert fast_dropout(torch.ones(shape), 0.5).shape == tuple(shape)


def test_gradients_pass_where_values_passed():
    x = torch.randn(100, requires_grad=True)
    dropped = FastDropout(0.3)(x)
    dropped.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x.detach(), dropped.detach())


def test_a_seed_makes_a_mask():
    def once():
        torch.manual_seed(3)
        return fast_dropout(torch.ones(1000), 0.5)

    assert torch.equal(once(), once())


def test_evaluation_changes_nothing():
    x = torch.randn(10)
    assert FastDropout(0.5).eval()(x) is x


def test_half_precision_stays_half():
    assert FastDropout(0.5)(torch.ones(8, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_a_share_next_to_one_leaves_finite_numbers():
    assert fast_dropout(torch.ones(1000), 0.999_999).isfinite().all()
