"""What a graph's edges say of its nodes: who is how far from whom, and where in the graph each is."""

import warnings

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.errors import DataError

Edges = Int64[Tensor, "2 edges"]

MOST_PAIRS = 50_000_000  # 1.2 GB of pairs and distances
MOST_NODES = 10_000  # whose Laplacian is taken apart: minutes, and 1.6 GB
SMALLEST = 1e-6  # eigenvalues below it are zeros: one for each part of the graph that hangs together
COLUMNS = 64  # of walks that are followed together: so many stay in a processor's cache


def near_pairs(
    edges: Edges, num_nodes: int, max_distance: int
) -> tuple[Int64[Tensor, "2 pairs"], Int64[Tensor, " pairs"]]:
    """All (source, target) that `max_distance` steps or fewer lead along, and how many it takes.

    Each node is 0 steps from itself. Pairs come in the order of targets, then sources.

    Raises:
        DataError: there are too many.
    """
    sources, targets = edges.numpy()
    order = np.argsort(targets, kind="stable")
    sources = sources[order]
    starts = np.searchsorted(targets[order], np.arange(num_nodes + 1))
    nodes = np.arange(num_nodes, dtype=np.int64)
    frontier = nodes * num_nodes + nodes  # a pair is one number: target, then source
    found, distances = frontier, np.zeros(num_nodes, np.int64)
    for distance in range(1, max_distance + 1):
        target, source = np.divmod(frontier, num_nodes)
        counts = starts[source + 1] - starts[source]
        if len(found) + counts.sum() > MOST_PAIRS:
            raise DataError(
                f"more than {MOST_PAIRS:,} pairs of nodes are within {distance} steps",
                f"max_distance = {distance - 1} is as far as this graph can be looked at"
                if distance > 1
                else "take a model that looks along edges, kind = 'gat'",
            )
        within = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
        before = sources[np.repeat(starts[source], counts) + within]
        reached = np.unique(np.repeat(target, counts) * num_nodes + before)
        frontier = np.setdiff1d(reached, found, assume_unique=True)
        found = np.concatenate([found, frontier])
        distances = np.concatenate([distances, np.full(len(frontier), distance, np.int64)])
    order = np.argsort(found)
    target, source = np.divmod(found[order], num_nodes)
    return torch.from_numpy(np.stack([source, target])), torch.from_numpy(distances[order])


def random_walk_positions(edges: Edges, num_nodes: int, count: int) -> Float[Tensor, "{num_nodes} {count}"]:
    """The chances that a walk from each node, as edges point, is back after 1 to `count` steps.

    Dwivedi et al. 2022, section 3.2. A walk that can go nowhere ends.

    It costs count * nodes * edges multiplications: on one core 0.08 s a step for 4,000 nodes and 200,000
    edges, a hundred times that for ten times as many of both. With COO matrices and 4,096 columns it was
    0.37 s. Nothing is kept: each run, each evaluation pays anew.
    """
    step = _steps(edges, num_nodes)
    positions = torch.zeros(num_nodes, count)
    for start in range(0, num_nodes, COLUMNS):
        own = torch.arange(start, min(start + COLUMNS, num_nodes))
        column = own - start
        where = torch.zeros(num_nodes, len(own))
        where[own, column] = 1
        for steps in range(count):
            where = step @ where
            positions[own, steps] = where[own, column]
    return positions


def _steps(edges: Edges, num_nodes: int) -> Tensor:
    """In row b, column a: the chance that a walk at a goes to b next. Rows are compressed (CSR)."""
    ways = torch.bincount(edges[0], minlength=num_nodes)
    chances = torch.sparse_coo_tensor(
        edges.flip(0), 1 / ways[edges[0]].float(), (num_nodes, num_nodes), check_invariants=False
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return chances.coalesce().to_sparse_csr()


def laplacian_positions(edges: Edges, num_nodes: int, count: int) -> Float[Tensor, "{num_nodes} {count}"]:
    """The first `count` eigenvectors of I - D^-1/2 A D^-1/2 whose eigenvalue is not 0, times sqrt(nodes).

    Dwivedi and Bresson 2021, section 2.1; directions of edges do not count. Where the graph has fewer, the
    rest is 0. The sign of an eigenvector is arbitrary: here its largest entry is positive.

    Raises:
        DataError: the graph is too large.
    """
    if num_nodes > MOST_NODES:
        raise DataError(
            f"the Laplacian of {num_nodes:,} nodes is too large to be taken apart: {MOST_NODES:,} at most",
            "node_positions = 'random_walk'",
        )
    adjacency = np.zeros((num_nodes, num_nodes))
    adjacency[edges[0], edges[1]] = adjacency[edges[1], edges[0]] = 1
    np.fill_diagonal(adjacency, 0)
    degrees = adjacency.sum(axis=1)
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros(num_nodes), where=degrees > 0)
    values, vectors = np.linalg.eigh(np.eye(num_nodes) - scale[:, None] * adjacency * scale)
    vectors = vectors[:, values > SMALLEST][:, :count]
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])]) * np.sqrt(num_nodes)
    positions = np.zeros((num_nodes, count), np.float32)
    positions[:, : vectors.shape[1]] = vectors
    return torch.from_numpy(positions)
