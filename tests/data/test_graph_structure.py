"""Graph structure: distances, random walks and eigenvectors agree with their plain definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data import graph_structure
from regard.data.graph_structure import laplacian_positions, near_pairs, random_walk_positions
from regard.errors import DataError

graphs = st.integers(1, 9).flatmap(
    lambda nodes: st.tuples(
        st.just(nodes), st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)), unique=True)
    )
)


def edges_of(pairs):
    return torch.tensor([list(row) for row in zip(*pairs, strict=True)] or [[], []], dtype=torch.int64)


def adjacency(nodes, edges):
    matrix = torch.zeros(nodes, nodes)
    matrix[edges[0], edges[1]] = 1
    return matrix


@given(graphs, st.integers(1, 4))
def test_distances_of_pairs_agree_with_powers_of_the_matrix(graph, most):
    nodes, edges = graph[0], edges_of(graph[1])
    expected = {}
    reached = torch.eye(nodes)
    for distance in range(most + 1):
        for source, target in reached.nonzero().tolist():
            expected.setdefault((source, target), distance)
        reached = reached @ adjacency(nodes, edges)
    pairs, distances = near_pairs(edges, nodes, most)
    found = dict(zip(zip(*pairs.tolist(), strict=True), distances.tolist(), strict=True))
    assert len(found) == pairs.size(1)
    assert found == expected


def test_too_many_pairs_are_refused_before_they_are_made(monkeypatch):
    monkeypatch.setattr(graph_structure, "MAX_PAIRS", 100)
    star = torch.stack([torch.arange(1, 40), torch.zeros(39, dtype=torch.int64)])
    star = torch.cat([star, star.flip(0)], dim=1)
    with pytest.raises(DataError, match="within 1 steps"):
        near_pairs(star, 40, 1)
    monkeypatch.setattr(graph_structure, "MAX_PAIRS", 200)
    assert near_pairs(star, 40, 1)[0].size(1) == 40 + 78
    with pytest.raises(DataError, match="within 2 steps") as refusal:
        near_pairs(star, 40, 2)
    assert "max_distance = 1" in refusal.value.hint


@given(graphs, st.integers(1, 5))
def test_random_walk_positions_are_the_diagonals_of_matrix_powers(graph, count):
    nodes, edges = graph[0], edges_of(graph[1])
    matrix = adjacency(nodes, edges)
    step = matrix / matrix.sum(dim=1, keepdim=True).clamp(min=1)
    expected = torch.stack([torch.linalg.matrix_power(step, k + 1).diagonal() for k in range(count)], dim=1)
    torch.testing.assert_close(random_walk_positions(edges, nodes, count), expected)


def test_many_walks_agree_with_a_dense_product():
    """Compared with a dense matrix product: more walks than a block, and a node without outgoing edges."""
    nodes = 3 * graph_structure.WALKS_PER_BLOCK + 7
    edges = torch.randint(nodes - 1, (2, 900), generator=torch.Generator().manual_seed(0)).unique(dim=1)
    matrix = adjacency(nodes, edges)
    step = matrix / matrix.sum(dim=1, keepdim=True).clamp(min=1)
    where, expected = torch.eye(nodes), []
    for _ in range(5):
        where = where @ step
        expected.append(where.diagonal())
    torch.testing.assert_close(random_walk_positions(edges, nodes, 5), torch.stack(expected, dim=1))


def test_walks_are_computed_in_blocks(monkeypatch):
    edges = torch.randint(10, (2, 30), generator=torch.Generator().manual_seed(0)).unique(dim=1)
    whole = random_walk_positions(edges, 10, 6)
    monkeypatch.setattr(graph_structure, "WALKS_PER_BLOCK", 3)
    torch.testing.assert_close(random_walk_positions(edges, 10, 6), whole)


def ring(nodes):
    around = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    return torch.cat([around, around.flip(0)], dim=1)


def test_positions_are_eigenvectors_of_the_laplacian():
    edges = torch.cat([ring(7), torch.tensor([[0, 3], [3, 0]])], dim=1)
    matrix = adjacency(7, edges).numpy()
    degrees = matrix.sum(axis=1)
    laplacian = np.eye(7) - matrix / np.sqrt(degrees[:, None] * degrees)
    positions = laplacian_positions(edges, 7, 4).numpy()
    for column in positions.T:
        value = column @ laplacian @ column / (column @ column)
        assert 1e-4 < value < 2
        np.testing.assert_allclose(laplacian @ column, value * column, atol=1e-4)
        np.testing.assert_allclose(column @ column, 7, rtol=1e-4)
        assert column.max() > np.abs(column).max() - 1e-5


def test_parts_that_do_not_hang_together_and_lone_nodes_have_positions_too():
    edges = torch.cat([ring(4), ring(3) + 4], dim=1)
    positions = laplacian_positions(edges, 9, 20)
    assert positions.shape == (9, 20)
    assert positions.isfinite().all()
    assert not positions[:, 9 - 2 :].any(), "two eigenvalues are 0, so that seven vectors are left"


def test_a_graph_too_large_to_be_taken_apart_is_refused():
    with pytest.raises(DataError, match="too many") as refusal:
        laplacian_positions(torch.empty(2, 0, dtype=torch.int64), 20_000, 4)
    assert "random_walk" in refusal.value.hint
