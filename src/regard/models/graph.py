"""Models that classify the nodes of a graph: graph attention networks and a graph Transformer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.block import EncoderBlock, NormPosition
from regard.layers.graph import (
    DynamicGraphAttention,
    Edges,
    EdgeWeights,
    GraphAttention,
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

    Velickovic et al. 2018, section 3.3: a hidden layer concatenates `num_heads` heads to `d_model` features;
    the last layer averages `num_output_heads` heads, each with one output for each label. `attention` "gatv2"
    is that of Brody et al. 2022. With `self_loops` a node attends to itself too; without, the features of a
    node without neighbours do not reach its class. `normalised` and `undirected` describe the training
    graph: each feature row was divided by its sum, and each edge has both directions.
    """

    kind: ClassVar[str] = "gat"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cora": {},
        "pubmed": {"num_output_heads": 8},
    }
    num_features: int  # features of a node; follows from the data
    num_labels: int  # classes; follows from the data
    normalised: bool = True
    undirected: bool = True
    d_model: int = 64
    num_heads: int = 8
    num_output_heads: int = 1
    num_layers: int = 2  # layers of the network
    attention: Literal["gat", "gatv2"] = "gat"
    self_loops: bool = True
    dropout: float = 0.6  # of the inputs of each layer
    attention_dropout: float = 0.6  # of attention weights
    value_dropout: float = 0.6  # of the values; in the authors' code, not in the paper

    def __post_init__(self) -> None:
        self.require_positive("num_features", "num_labels", "d_model", "num_heads", "num_output_heads")
        self.require_positive("num_layers")
        self.require_fraction("dropout", "attention_dropout", "value_dropout")
        if self.d_model % self.num_heads:
            raise ConfigError(
                f"d_model ({self.d_model}) must be divisible by num_heads ({self.num_heads})",
                f"for instance d_model = {self.num_heads * max(1, self.d_model // self.num_heads)}",
            )


class GraphModel(Model):
    """A model that gives logits of the classes of each node of a graph."""


class GraphAttentionNetwork(GraphModel):
    """A graph attention network: node features and edges -> logits of each node's classes.

    With a pair (source, target) in `edges` the target attends to the source; an undirected edge is two
    pairs. The order of edges does not matter, and reordering nodes reorders the outputs.
    """

    def __init__(self, config: GraphConfig) -> None:
        super().__init__()
        self.config: GraphConfig = config
        layer = GraphAttention if config.attention == "gat" else DynamicGraphAttention
        *hidden, last = [config.num_features, *[config.d_model] * (config.num_layers - 1)]
        dropouts: dict[str, Any] = {
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "value_dropout": config.value_dropout,
        }
        d_head = config.d_model // config.num_heads
        self.layers = nn.ModuleList(layer(width, d_head, config.num_heads, **dropouts) for width in hidden)
        self.output = layer(last, config.num_labels, config.num_output_heads, combine="mean", **dropouts)

    def forward(self, features: Features, edges: Edges) -> Logits:
        edges = self.neighbourhoods(edges, features.size(0))
        x = features
        for layer in self.layers:
            x = F.elu(layer(x, edges))
        return self.output(x, edges)

    def neighbourhoods(self, edges: Edges, num_nodes: int) -> Int64[Tensor, "2 more_edges"]:
        """The edges that the layers use, with self-loops if the config has them."""
        return with_self_loops(edges, num_nodes) if self.config.self_loops else edges

    def attention_weights(self, features: Features, edges: Edges) -> list[Float[Tensor, "more_edges heads"]]:
        """For each layer, the attention weights along the edges of `neighbourhoods(edges, num_nodes)`."""
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
    """The settings of a Transformer over the nodes of a graph.

    Each distance of 0 to `max_distance` hops has a learned bias for each head (Ying et al. 2021, section
    3.1.2). `reach` "near" restricts attention to nodes within `max_distance` (Dwivedi and Bresson 2021), at a
    cost that grows with their number; "all" attends to all nodes, at a cost of nodes^2. `node_positions` are
    `num_node_positions` return probabilities of a random walk after 1, 2, ... steps (Dwivedi et al. 2022), or
    eigenvectors of the graph's Laplacian. `feature_dropout` acts on the input features. `normalised` and
    `undirected` are as in `GraphConfig`.
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
    num_features: int  # features of a node; follows from the data
    num_labels: int  # classes; follows from the data
    normalised: bool = True
    undirected: bool = True
    num_layers: int = 2  # blocks of the model
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
        self.require_positive(
            "num_features", "num_labels", "num_layers", "max_distance", "num_node_positions"
        )
        super().__post_init__()
        self.require_fraction("feature_dropout")
        if self.positions != "none":
            raise ConfigError(
                f"positions = {self.positions!r} need a sequence, but nodes have no order",
                "leave it out; node_positions are the positions in a graph",
            )


class GraphTransformer(GraphModel):
    """A graph Transformer: node features and distances between nodes -> logits of each node's classes.

    With a pair (source, target) in `edges` the target attends to the source, which is `distances` hops away;
    a node is 0 hops from itself. With `reach` = "all" nodes also attend to pairs that are not listed, without
    a bias.
    """

    def __init__(self, config: GraphTransformerConfig) -> None:
        super().__init__()
        self.config: GraphTransformerConfig = config
        self.input = nn.Linear(config.num_features, config.d_model)
        self.node_positions = None
        if config.node_positions != "none":
            self.node_positions = nn.Linear(config.num_node_positions, config.d_model)
        self.distance_bias = nn.Parameter(torch.zeros(config.max_distance + 1, config.num_heads))
        self.feature_dropout, self.dropout = nn.Dropout(config.feature_dropout), nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(parts.encoder_block(config, None) for _ in range(config.num_layers))
        self.norm = parts.final_norm(config)
        self.head = nn.Linear(config.d_model, config.num_labels)

    def forward(
        self,
        features: Features,
        edges: Edges,
        distances: Int64[Tensor, " edges"],
        positions: Float[Tensor, "nodes positions"] | None = None,
    ) -> Logits:
        x = self._embed(features, positions)[None]
        edge_bias = self.distance_bias[distances]
        if self.config.reach == "near":
            for block in self.blocks:
                assert isinstance(block, EncoderBlock)
                x = _along_edges(block, x, edges, edge_bias)
        else:
            dense_bias = _dense_bias(edge_bias, edges, features.size(0))
            for block in self.blocks:
                x = block(x, None, dense_bias)
        return self.head(self.norm(x))[0]

    def _embed(
        self, features: Features, positions: Float[Tensor, "nodes positions"] | None
    ) -> Float[Tensor, "nodes d_model"]:
        features = dropped(features, self.feature_dropout)
        if features.is_sparse:
            x = torch.sparse.mm(features, self.input.weight.T) + self.input.bias
        else:
            x = self.input(features)
        if self.node_positions is not None:
            if positions is None:
                raise ValueError(f"the model needs positions of nodes ({self.config.node_positions})")
            x = x + self.node_positions(positions)
        elif positions is not None:
            raise ValueError("the model has no positions of nodes (node_positions = 'none')")
        return self.dropout(x)

    def initialise(self, generator: torch.Generator) -> None:
        xavier(self, generator)
        with torch.no_grad():
            nn.init.normal_(self.distance_bias, std=0.02, generator=generator)


def _along_edges(
    block: EncoderBlock, x: Float[Tensor, "1 nodes d_model"], edges: Edges, edge_bias: EdgeWeights
) -> Float[Tensor, "1 nodes d_model"]:
    """The block's output, with attention restricted to the edges."""
    x = block.around_self_attention(
        x, lambda y: attend_along_edges(block.self_attention, y, edges, edge_bias)
    )
    return block.around_feed_forward(x, block.feed_forward)


def _dense_bias(edge_bias: EdgeWeights, edges: Edges, num_nodes: int) -> Float[Tensor, "1 heads nodes nodes"]:
    """The biases of the edges as a matrix of targets and sources; 0 without an edge."""
    flat_index = edges[1] * num_nodes + edges[0]
    dense = edge_bias.new_zeros(num_nodes**2, edge_bias.size(1)).index_add(0, flat_index, edge_bias)
    return dense.unflatten(0, (num_nodes, num_nodes)).permute(2, 0, 1)[None]
