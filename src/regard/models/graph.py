"""Nodes of a graph -> their classes: graph attention networks, and a Transformer on graphs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.block import EncoderBlock, NormPosition
from regard.layers.dropout import Dropout
from regard.layers.graph import (
    DynamicGraphAttention,
    Edges,
    GraphAttention,
    Weights,
    attend_along_edges,
    dropped,
    with_self_loops,
)
from regard.models import parts
from regard.models.config import ModelConfig, TransformerConfig
from regard.models.initialise import xavier
from regard.models.model import Model

Features = Float[Tensor, "nodes features"]  # dense, or sparse (COO)
Logits = Float[Tensor, "nodes labels"]


@dataclass(frozen=True, kw_only=True)
class GraphConfig(ModelConfig):
    """The settings of a graph attention network; the defaults are those for Cora and Citeseer.

    Velickovic et al. 2018, section 3.3: a hidden layer has `num_heads` heads side by side, `d_model` wide
    together; the last one averages `num_output_heads` heads, each as wide as there are labels.
    `attention`: "gatv2" is that of Brody et al. 2022. `self_loops`: a node looks at itself too; without
    them, what a node without neighbours knows of itself has no influence on its class. `normalised`,
    `undirected` are facts of the graph it is trained on: each row of the features was divided by its sum,
    and each edge goes both ways.
    """

    kind: ClassVar[str] = "gat"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cora": {},
        "pubmed": {"num_output_heads": 8},
    }
    num_features: int
    num_labels: int
    normalised: bool = True
    undirected: bool = True
    d_model: int = 64
    num_heads: int = 8
    num_output_heads: int = 1
    num_layers: int = 2
    attention: Literal["gat", "gatv2"] = "gat"
    self_loops: bool = True
    dropout: float = 0.6  # of the inputs of each layer
    attention_dropout: float = 0.6
    value_dropout: float = 0.6  # of what is looked at: in the authors' code, not in the paper

    def __post_init__(self) -> None:
        self.refuse_small("num_features", "num_labels", "d_model", "num_heads", "num_output_heads")
        self.refuse_small("num_layers")
        self.refuse_no_share("dropout", "attention_dropout", "value_dropout")
        if self.d_model % self.num_heads:
            raise ConfigError(
                f"d_model ({self.d_model}) must be divisible by num_heads ({self.num_heads})",
                f"for instance d_model = {self.num_heads * max(1, self.d_model // self.num_heads)}",
            )


class GraphModel(Model):
    """Gives logits of the classes of each node of a graph; what it reads of one, its config says."""


class GraphAttentionNetwork(GraphModel):
    """Features of nodes and edges between them -> logits of each node's classes.

    A pair (source, target) of `edges` lets the target look at the source: an edge without direction is
    two pairs. The order of the edges does not matter, and that of the nodes matters to their order alone.
    """

    def __init__(self, config: GraphConfig) -> None:
        super().__init__()
        self.config: GraphConfig = config
        layer = GraphAttention if config.attention == "gat" else DynamicGraphAttention
        *hidden, last = [config.num_features, *[config.d_model] * (config.num_layers - 1)]
        self.layers = nn.ModuleList(
            layer(
                width,
                config.d_model // config.num_heads,
                config.num_heads,
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
                value_dropout=config.value_dropout,
            )
            for width in hidden
        )
        self.output = layer(
            last,
            config.num_labels,
            config.num_output_heads,
            combine="mean",
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            value_dropout=config.value_dropout,
        )

    def forward(self, features: Features, edges: Edges) -> Logits:
        edges = self.neighbourhoods(edges, features.size(0))
        x = features
        for layer in self.layers:
            x = F.elu(layer(x, edges))
        return self.output(x, edges)

    def neighbourhoods(self, edges: Edges, num_nodes: int) -> Int64[Tensor, "2 more_edges"]:
        """The edges along which the layers look."""
        return with_self_loops(edges, num_nodes) if self.config.self_loops else edges

    def attention_weights(self, features: Features, edges: Edges) -> list[Float[Tensor, "more_edges heads"]]:
        """For each layer, how much is looked along each edge of `neighbourhoods(edges, num_nodes)`."""
        edges = self.neighbourhoods(edges, features.size(0))
        x, weights = features, []
        for layer in self.layers:
            assert isinstance(layer, GraphAttention)
            weights.append(layer.attention_weights(x, edges))
            x = F.elu(layer(x, edges))
        return [*weights, self.output.attention_weights(x, edges)]

    def initialise(self, generator: torch.Generator) -> None:
        xavier(self, generator)
        for module in self.modules():
            if isinstance(module, GraphAttention):
                module.reset_vectors(generator)


@dataclass(frozen=True, kw_only=True)
class GraphTransformerConfig(TransformerConfig):
    """The settings of a Transformer whose sequence is the nodes of a graph.

    Two nodes are `max_distance` hops apart, or fewer, or far: each number of hops has a learned bias for
    each head (Ying et al. 2021, section 3.1.2). `reach`: "near" looks at those up to `max_distance` alone
    (Dwivedi and Bresson 2021), at a cost that grows with their number; "all" at all nodes, at the cost of
    nodes^2. `node_positions`, `num_node_positions` of them: the chances that a random walk is back after
    1, 2, ... steps (Dwivedi et al. 2022), or eigenvectors of the graph's Laplacian. `feature_dropout` acts on
    what is read of a node. `normalised` and `undirected` are as in `GraphConfig`.
    """

    kind: ClassVar[str] = "graph_transformer"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # Dwivedi and Bresson 2021, section 4.1: about 500,000 parameters
        "paper": {
            "d_model": 80,
            "d_ff": 160,
            "num_layers": 10,
            "activation": "relu",
            "norm_position": "post",
        },
        "cora": {"d_model": 64, "d_ff": 64, "num_layers": 2},
    }
    num_features: int
    num_labels: int
    normalised: bool = True
    undirected: bool = True
    num_layers: int = 2
    reach: Literal["near", "all"] = "near"
    max_distance: int = 1
    node_positions: Literal["random_walk", "laplacian", "none"] = "random_walk"
    num_node_positions: int = 16
    d_model: int = 64
    num_heads: int = 8
    d_ff: int = 64
    norm_position: NormPosition = "pre"
    positions: str = "none"
    feature_dropout: float = 0.0

    def __post_init__(self) -> None:
        self.refuse_small("num_features", "num_labels", "num_layers", "max_distance", "num_node_positions")
        super().__post_init__()
        self.refuse_no_share("feature_dropout")
        if self.positions != "none":
            raise ConfigError(
                f"positions = {self.positions!r} are of a sequence, and nodes have no order",
                "leave it out; node_positions say where in its graph a node is",
            )


class GraphTransformer(GraphModel):
    """Features of nodes, and who is how far from whom -> logits of each node's classes.

    A pair (source, target) of `edges` lets the target look at the source, `distances` hops away; a node is
    0 hops from itself. With `reach` = "all" pairs that are not listed are far, and looked at too.
    """

    def __init__(self, config: GraphTransformerConfig) -> None:
        super().__init__()
        self.config: GraphTransformerConfig = config
        self.input = nn.Linear(config.num_features, config.d_model)
        self.node_positions = None
        if config.node_positions != "none":
            self.node_positions = nn.Linear(config.num_node_positions, config.d_model)
        self.distance_bias = nn.Parameter(torch.zeros(config.max_distance + 1, config.num_heads))
        self.feature_dropout, self.dropout = Dropout(config.feature_dropout), Dropout(config.dropout)
        self.blocks = nn.ModuleList(parts.encoder_block(config, None) for _ in range(config.num_layers))
        self.norm = parts.final_norm(config)
        self.head = nn.Linear(config.d_model, config.num_labels)

    def forward(
        self,
        features: Features,
        edges: Edges,
        distances: Int64[Tensor, " edges"],
        positions: Float[Tensor, "nodes places"] | None = None,
    ) -> Logits:
        x = self._read(features, positions)[None]
        edge_bias = self.distance_bias[distances]
        if self.config.reach == "near":
            for block in self.blocks:
                assert isinstance(block, EncoderBlock)
                x = _along_edges(block, x, edges, edge_bias)
        else:
            everywhere = _spread(edge_bias, edges, features.size(0))
            for block in self.blocks:
                x = block(x, None, everywhere)
        return self.head(self.norm(x))[0]

    def _read(
        self, features: Features, positions: Float[Tensor, "nodes places"] | None
    ) -> Float[Tensor, "nodes d_model"]:
        features = dropped(features, self.feature_dropout)
        if features.is_sparse:
            x = torch.sparse.mm(features, self.input.weight.T) + self.input.bias
        else:
            x = self.input(features)
        if self.node_positions is not None:
            if positions is None:
                raise ValueError(f"the model reads positions of nodes ({self.config.node_positions})")
            x = x + self.node_positions(positions)
        elif positions is not None:
            raise ValueError("positions are given, but the model reads none (node_positions = 'none')")
        return self.dropout(x)

    def initialise(self, generator: torch.Generator) -> None:
        xavier(self, generator)
        with torch.no_grad():
            nn.init.normal_(self.distance_bias, std=0.02, generator=generator)


def _along_edges(
    block: EncoderBlock, x: Float[Tensor, "1 nodes d_model"], edges: Edges, edge_bias: Weights
) -> Float[Tensor, "1 nodes d_model"]:
    """The block with its attention restricted to the edges."""
    x = block.around_self_attention(
        x, lambda y: attend_along_edges(block.self_attention, y, edges, edge_bias)
    )
    return block.around_feed_forward(x, block.feed_forward)


def _spread(edge_bias: Weights, edges: Edges, num_nodes: int) -> Float[Tensor, "1 heads nodes nodes"]:
    """The biases of the edges in a matrix of targets and sources; 0 where there is no edge."""
    places = edges[1] * num_nodes + edges[0]
    spread = edge_bias.new_zeros(num_nodes**2, edge_bias.size(1)).index_add(0, places, edge_bias)
    return spread.unflatten(0, (num_nodes, num_nodes)).permute(2, 0, 1)[None]
