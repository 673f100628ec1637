"""Attention along the edges of a graph: GAT, GATv2, dot products; nothing of size nodes x nodes.

An edge is a pair (source, target): the target attends to the source. The sources of a node are its
neighbourhood. The output of a node is a mean over its neighbourhood, weighted by a softmax. The order of the
edges does not matter. A node without neighbours gets zeros; `with_self_loops` makes each node a neighbour of
itself.

Features may be a sparse tensor (COO), such as bags of words, where zeros cost no time.
"""

import math
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.layers.arguments import refuse_other_shares, refuse_other_sizes, refuse_unknown
from regard.layers.attention import SelfAttention
from regard.layers.softcapped import softcapped
from regard.layers.stacked import StackedLinear

Edges = Int64[Tensor, "2 edges"]
Nodes = Float[Tensor, "nodes width"]
EdgeWeights = Float[Tensor, "edges heads"]
Combine = Literal["concat", "mean"]

SLOPE = 0.2  # of LeakyReLU below zero, in both papers


def with_self_loops(edges: Edges, num_nodes: int) -> Int64[Tensor, "2 more_edges"]:
    """The edges with exactly one edge from each node to itself."""
    between = edges[:, edges[0] != edges[1]]
    return torch.cat([between, torch.arange(num_nodes, device=edges.device).expand(2, -1)], dim=1)


def neighbourhood_softmax(
    scores: EdgeWeights, targets: Int64[Tensor, " edges"], num_nodes: int
) -> EdgeWeights:
    """Softmax over the edges of each target, head by head (Velickovic et al. 2018, equation 2)."""
    places = targets[:, None].expand_as(scores)
    with torch.no_grad():  # the highest score of a neighbourhood keeps exp in range and cancels out
        highest = scores.new_full((num_nodes, scores.size(1)), -torch.inf)
        highest = highest.scatter_reduce(0, places, scores, "amax")
    powers = (scores - highest.index_select(0, targets)).exp()
    sums = powers.new_zeros(num_nodes, scores.size(1)).index_add(0, targets, powers)
    return powers / sums.index_select(0, targets)


def gathered(
    values: Float[Tensor, "nodes heads width"], weights: EdgeWeights, edges: Edges
) -> Float[Tensor, "nodes heads width"]:
    """For each node the sum of its neighbours' values, weighted by their edges."""
    sources, targets = edges
    messages = values.index_select(0, sources) * weights[:, :, None]
    return messages.new_zeros(values.shape).index_add(0, targets, messages)


class GraphAttention(nn.Module):
    """The layer of GAT: e(i, j) = LeakyReLU(query . W h_i + key . W h_j) (Velickovic et al. 2018, eq. 3).

    Each of `num_heads` heads has its own W with `d_head` rows, and its own `query` and `key`, the halves of
    the paper's vector a. The outputs of the heads are concatenated ("concat", equation 5) or averaged
    ("mean", equation 6). `dropout` acts on the inputs, `attention_dropout` on the weights, `value_dropout` on
    the values W h_j but not on the scores, as in the authors' code; the paper does not mention it.
    """

    def __init__(
        self,
        width: int,
        d_head: int,
        num_heads: int,
        *,
        combine: Combine = "concat",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        value_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        refuse_other_sizes(width=width, d_head=d_head, num_heads=num_heads)
        refuse_other_shares(dropout=dropout, attention_dropout=attention_dropout, value_dropout=value_dropout)
        refuse_unknown("combine", combine, get_args(Combine))
        self.d_head, self.num_heads = d_head, num_heads
        self.combine: Combine = combine
        self.value = StackedLinear(width, [d_head] * num_heads, bias=False)
        self._make_scoring(width)
        self.bias = nn.Parameter(torch.zeros(d_head * (num_heads if combine == "concat" else 1)))
        self.dropout = nn.Dropout(dropout)
        self.attention_dropout, self.value_dropout = nn.Dropout(attention_dropout), nn.Dropout(value_dropout)
        self.reset_vectors()

    def _make_scoring(self, width: int) -> None:
        self.query = nn.Parameter(torch.empty(self.num_heads, self.d_head))
        self.key = nn.Parameter(torch.empty(self.num_heads, self.d_head))

    def vectors(self) -> list[nn.Parameter]:
        """The parameters of the scores that are vectors, one a head, not matrices."""
        return [self.query, self.key]

    def reset_vectors(self, generator: torch.Generator | None = None) -> None:
        """Initialise each vector as a matrix with one row (Glorot and Bengio 2010)."""
        bound = math.sqrt(6 / (self.d_head + 1))
        for vector in self.vectors():
            nn.init.uniform_(vector, -bound, bound, generator=generator)

    def forward(self, x: Nodes, edges: Edges) -> Float[Tensor, "nodes out_width"]:
        values, weights = self._values_and_weights(x, edges)
        mixed = gathered(self.value_dropout(values), self.attention_dropout(weights), edges)
        return (mixed.flatten(1) if self.combine == "concat" else mixed.mean(dim=1)) + self.bias

    def attention_weights(self, x: Nodes, edges: Edges) -> EdgeWeights:
        """The weight of each edge; the weights of the edges into a node sum to 1."""
        return self._values_and_weights(x, edges)[1]

    def _values_and_weights(
        self, x: Nodes, edges: Edges
    ) -> tuple[Float[Tensor, "nodes heads d_head"], EdgeWeights]:
        x = dropped(x, self.dropout)
        values = self._heads(self.value, x)
        scores = self._scores(x, values, edges)
        return values, neighbourhood_softmax(scores.float(), edges[1], x.size(0))

    def _scores(self, x: Nodes, values: Float[Tensor, "nodes heads d_head"], edges: Edges) -> EdgeWeights:
        by_query, by_key = (values * self.query).sum(-1), (values * self.key).sum(-1)
        sources, targets = edges
        return F.leaky_relu(by_query.index_select(0, targets) + by_key.index_select(0, sources), SLOPE)

    def _heads(self, linear: nn.Linear, x: Nodes) -> Float[Tensor, "nodes heads d_head"]:
        made = torch.sparse.mm(x, linear.weight.T.contiguous()) if x.is_sparse else linear(x)
        return made.unflatten(-1, (self.num_heads, self.d_head))


class DynamicGraphAttention(GraphAttention):
    """The layer of GATv2: e(i, j) = key . LeakyReLU(W_query h_i + W_value h_j) (Brody et al. 2022, eq. 7).

    In GAT all nodes rank their neighbours in the same order, since LeakyReLU comes last; here each node can
    have an order of its own.
    """

    def _make_scoring(self, width: int) -> None:
        self.query = StackedLinear(width, [self.d_head] * self.num_heads, bias=False)
        self.key = nn.Parameter(torch.empty(self.num_heads, self.d_head))

    def vectors(self) -> list[nn.Parameter]:
        return [self.key]

    def _scores(self, x: Nodes, values: Float[Tensor, "nodes heads d_head"], edges: Edges) -> EdgeWeights:
        sources, targets = edges
        sums = self._heads(self.query, x).index_select(0, targets) + values.index_select(0, sources)
        return (F.leaky_relu(sums, SLOPE) * self.key).sum(-1)


def attend_along_edges(
    attention: SelfAttention,
    x: Float[Tensor, "1 nodes d_model"],
    edges: Edges,
    edge_bias: EdgeWeights | None = None,
) -> Float[Tensor, "1 nodes d_model"]:
    """`attention` in which each node attends to its neighbours only, without a mask of nodes x nodes.

    `edge_bias` is added to the scores of the edges (Dwivedi and Bresson 2021, section 2.3).
    """
    query, key_value = attention._project(x, x, None, None)
    query, key, value = (_of_nodes(part, attention.num_heads) for part in (query, *key_value))
    sources, targets = edges
    query = query / math.sqrt(attention.d_head)
    scores = (query.index_select(0, targets) * key.index_select(0, sources)).sum(-1)
    if attention.softcap is not None:
        scores = softcapped(scores, attention.softcap)
    if edge_bias is not None:
        scores = scores + edge_bias
    weights = neighbourhood_softmax(scores.float(), targets, query.size(0))
    if attention.training:
        weights = nn.Dropout(attention.dropout)(weights)
    return attention.output(gathered(value, weights, edges).to(x.dtype).flatten(1))[None]


def _of_nodes(
    part: Float[Tensor, "1 some_heads nodes d_head"], num_heads: int
) -> Float[Tensor, "nodes {num_heads} d_head"]:
    """The nodes first, then heads; a head that several query heads share is repeated for each."""
    return part[0].repeat_interleave(num_heads // part.size(1), dim=0).transpose(0, 1)


def dropped(x: Nodes, dropout: nn.Dropout) -> Nodes:
    """Dropout; of a sparse tensor only the stored elements are dropped, since all others are zero."""
    if not x.is_sparse or not dropout.training:
        return dropout(x)
    return torch.sparse_coo_tensor(
        x.indices(), dropout(x.values()), x.shape, is_coalesced=True, check_invariants=False
    )
