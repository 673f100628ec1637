"""Relative attention against its equation written out in loops."""

import math

import pytest
import torch

from regard.layers.cache import KeyValueCache
from regard.layers.masks import padding_mask
from regard.layers.positions import sinusoids
from regard.layers.relative import RelativePositions, RelativeSelfAttention, shifted
from regard.layers.scaled_dot_product import plain_attention

X = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))


def attention(table_len: int = 512, **options: object) -> RelativeSelfAttention:
    """With biases of its own: those it is made with are zero."""
    torch.manual_seed(0)
    made = RelativeSelfAttention(8, 2, RelativePositions(8, table_len), **options)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.3 * torch.randn(parameter.shape)
    return made.eval()


def look(made: RelativeSelfAttention, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    return made(x, x, mask)


def written_out(made: RelativeSelfAttention, x: torch.Tensor) -> torch.Tensor:
    """Dai et al. 2019, section 3.3, one score at a time: (a) + (b) + (c) + (d)."""
    batch, length, _ = x.shape
    query, key, value = made.query_key_value(x).split([8, 8, 8], dim=-1)
    mixed = torch.zeros(batch, length, 8)
    for row in range(batch):
        for head in range(2):
            of_head = slice(4 * head, 4 * head + 4)
            u, v = made.content_bias[head, 0], made.distance_bias[head, 0]
            for i in range(length):
                scores = torch.zeros(length)
                for j in range(length):
                    q, k = query[row, i, of_head], key[row, j, of_head]
                    r = made.distance(sinusoids(i - j, 1, 8)[0])[of_head]
                    scores[j] = (q @ k + q @ r + u @ k + v @ r) / math.sqrt(4)
                mixed[row, i, of_head] = scores.softmax(0) @ value[row, :, of_head]
    return made.output(mixed)


def test_it_is_the_equation_written_out():
    made = attention()
    torch.testing.assert_close(made(X, X), written_out(made, X), atol=1e-5, rtol=1e-5)


def test_it_is_the_equation_beyond_its_table():
    made = attention(table_len=3)
    torch.testing.assert_close(made(X, X), written_out(made, X), atol=1e-5, rtol=1e-5)


def test_rows_are_moved_by_their_number():
    length = 5
    by_distance = torch.arange(1 - length, length).flip(0).float().expand(1, 1, length, -1)
    expected = torch.arange(length)[:, None] - torch.arange(length)
    assert torch.equal(shifted(by_distance)[0, 0], expected.float())


def test_distances_run_from_the_furthest_back_to_the_furthest_ahead():
    for table_len in (4, 512):
        table = RelativePositions(8, table_len)(5)
        assert table.shape == (9, 8)
        for place, distance in enumerate(range(4, -5, -1)):
            torch.testing.assert_close(table[place], sinusoids(distance, 1, 8)[0])


def test_only_distances_count():
    """The same words further on, seen through a mask, are the same words."""
    made = attention()
    lone = look(made, X[:, :3])
    mask = (torch.arange(6) >= 3)[None, None, None]
    late = torch.cat([torch.zeros_like(X[:, :3]), X[:, :3]], dim=1)
    torch.testing.assert_close(look(made, late, mask)[:, 3:], lone, atol=1e-5, rtol=1e-5)


def test_order_matters():
    made = attention()
    assert not torch.allclose(look(made, X.flip(1)).flip(1), look(made, X), atol=1e-3)


def test_masked_positions_have_no_influence():
    made, mask = attention(), padding_mask(torch.tensor([6, 2]), 6)
    dirty = X.clone()
    dirty[1, 2:] = 9.0
    torch.testing.assert_close(look(made, dirty, mask)[1, :2], look(made, X[1:, :2])[0])


def test_a_bias_is_added_to_its_own():
    made = attention()
    bias = torch.zeros(1, 1, 6, 6).masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(made(X, X, position_bias=bias), made(X, X, bias == 0))


def test_keys_may_be_shared_by_heads():
    assert attention(num_kv_heads=1)(X, X).shape == X.shape


def test_it_can_be_recorded():
    made, seen = attention(), []

    def watching(query, key, value, mask, position_bias, dropout):
        seen.append(position_bias)
        return plain_attention(query, key, value, mask, position_bias, dropout)

    expected = made(X, X)
    made.attend = watching
    torch.testing.assert_close(made(X, X), expected, atol=1e-5, rtol=1e-5)
    assert seen[0].shape == (2, 2, 6, 6)


def test_it_keeps_no_cache():
    with pytest.raises(ValueError, match="cache"):
        attention()(X, X, cache=KeyValueCache())
