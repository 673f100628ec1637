"""Embeddings are those of PyTorch."""

import pytest
import torch

from regard.fast.native import kernels
from regard.fast.native.embedding import embed

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no C compiler")


@pytest.mark.parametrize("features", [1, 16, 50])
@pytest.mark.parametrize("with_positions", [True, False])
def test_they_are_rows_scaled_and_moved(features, with_positions):
    generator = torch.Generator().manual_seed(features)
    table, plus = (torch.randn(size, features, generator=generator) for size in (9, 4))
    ids = torch.tensor([3, 0, 8, 3])
    found = embed(ids, table, 4.5, plus if with_positions else None)
    torch.testing.assert_close(found, table[ids] * 4.5 + (plus if with_positions else 0))


@pytest.mark.parametrize("wrong", [-1, 9])
def test_ids_that_have_none_are_refused(wrong):
    with pytest.raises(IndexError, match="no embedding"):
        embed(torch.tensor([1, wrong]), torch.zeros(9, 4), 1.0, None)
