"""Graphs with labelled nodes: a data set with one example, the whole graph."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.data.batch import IGNORED
from regard.data.examples import Indices, Lengths
from regard.data.noise import derive_seed
from regard.data.synthetic import Split


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A graph: node features, edges, node labels, and splits.

    Features may be sparse (COO). An edge lets its target attend to its source. There are no duplicate edges
    and no self-loops; models add self-loops if they need them. A node without a label has IGNORED.
    """

    features: Float[Tensor, "nodes features"]
    edges: Int64[Tensor, "2 edges"]
    labels: Int64[Tensor, " nodes"]
    splits: Mapping[Split, Int64[Tensor, " some_nodes"]]
    label_names: tuple[str, ...]
    name: str  # for messages

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def isolated(self) -> int:
        """The number of nodes without an edge."""
        return len(self) - len(self.edges.unique())

    def labels_of(self, split: Split) -> Int64[Tensor, " nodes"]:
        """The labels of the nodes of this split; other nodes have IGNORED."""
        labels = torch.full_like(self.labels, IGNORED)
        nodes = self.splits[split]
        labels[nodes] = self.labels[nodes]
        return labels

    def fingerprint(self) -> str:
        """A digest of the whole graph, by which a resumed run recognises its data."""
        digest = hashlib.sha256(repr((tuple(self.features.shape), self.label_names)).encode())
        features = self.features.coalesce() if self.features.is_sparse else self.features
        parts = [features.indices(), features.values()] if features.is_sparse else [features]
        for part in [*parts, self.edges, self.labels, *(self.splits[split] for split in sorted(self.splits))]:
            digest.update(part.contiguous().numpy().tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class GraphBatch:
    """A whole graph with labels for some nodes, and node positions if the model uses them.

    With `distances`, `edges` are all pairs of near nodes, and `distances` their numbers of steps.
    """

    features: Float[Tensor, "nodes features"]
    edges: Int64[Tensor, "2 edges"]
    distances: Int64[Tensor, " edges"] | None = None
    positions: Float[Tensor, "nodes places"] | None = None
    labels: Int64[Tensor, " nodes"]
    lines: Int64[Tensor, " graphs"]

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """The arguments of the model's forward pass."""
        if self.distances is None:
            return self.features, self.edges
        return self.features, self.edges, self.distances, self.positions

    @property
    def num_targets(self) -> int:
        """The number of nodes to classify."""
        return int((self.labels != IGNORED).sum())

    def to(self, device: torch.device | str) -> "GraphBatch":
        if self.labels.device == torch.device(device):
            return self
        return GraphBatch(
            features=self.features.to(device),
            edges=self.edges.to(device),
            distances=None if self.distances is None else self.distances.to(device),
            positions=None if self.positions is None else self.positions.to(device),
            labels=self.labels.to(device),
            lines=self.lines.to(device),
        )

    def halves(self) -> None:
        """None: the loss of a node needs the whole graph."""


class GraphExamples:
    """A data set with one example: the whole graph, with the labels of `split`.

    `pairs` of nodes with their distances replace the graph's edges. With a `seed`, each column of `positions`
    gets a random sign in every epoch, because the sign of an eigenvector is arbitrary (Dwivedi and Bresson
    2021, section 2.1).
    """

    def __init__(
        self,
        graph: Graph,
        split: Split,
        pairs: tuple[Int64[Tensor, "2 edges"], Int64[Tensor, " edges"]] | None = None,
        positions: Float[Tensor, "nodes places"] | None = None,
        *,
        seed: int | None = None,
    ) -> None:
        edges, distances = (graph.edges, None) if pairs is None else pairs
        self._seed = seed
        self._batch = GraphBatch(
            features=graph.features,
            edges=edges,
            distances=distances,
            positions=positions,
            labels=graph.labels_of(split),
            lines=torch.ones(1, dtype=torch.int64),
        )

    def __len__(self) -> int:
        return 1

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        ones = np.ones(len(examples), np.int64)
        return ones, ones

    def batch(self, examples: Indices, epoch: int) -> GraphBatch:
        positions = self._batch.positions
        if self._seed is None or positions is None:
            return self._batch
        generator = torch.Generator().manual_seed(derive_seed(self._seed, epoch))
        signs = torch.randint(2, (positions.size(1),), generator=generator) * 2 - 1
        return replace(self._batch, positions=positions * signs)
