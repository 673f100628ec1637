"""Classes of the nodes of one graph, of which some are known: graph attention, graph transformers."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from regard.data.examples import Examples
from regard.data.graph_files import GraphSettings, read_graph, read_test_graph
from regard.data.graph_structure import Edges, laplacian_positions, near_pairs, random_walk_positions
from regard.data.graphs import Graph, GraphExamples, Split
from regard.data.loader import Loader
from regard.distributed.group import SINGLE, Group
from regard.errors import DataError, RecipeError
from regard.evaluation.classification import accuracy, confusion
from regard.evaluation.score import Score
from regard.models.config import ModelConfig
from regard.models.graph import GraphModel, GraphTransformerConfig
from regard.models.model import Model
from regard.training.objective import LabelCrossEntropy, Objective
from regard.verbs.box import model_that
from regard.verbs.data_fingerprints import refuse_other_data
from regard.verbs.tasks.classification import class_test_scores
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import HeldOutData, Measured, Say, Task, model_config
from regard.weights.model_folder import LoadedModel

WHOLE = np.zeros(1, np.int64)  # the one example that there is


@dataclass(frozen=True, kw_only=True)
class NodesSettings:
    """`[task]`."""

    kind: Literal["nodes"]


@dataclass(frozen=True, kw_only=True)
class NodesRecipe(Recipe):
    """Graph, model, training."""

    model_kind: ClassVar[str] = "gat"
    task: NodesSettings
    data: GraphSettings

    @property
    def measured(self) -> tuple[str, ...]:
        return ("accuracy",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.training.r_drop:
            raise RecipeError("training.r_drop is for translation", "leave it out")


class NodeClassification(Task):
    """The graph, and what the model asks for beside it."""

    use = "regard classify --model . --input GRAPH.npz"
    trial_share = 1.0  # a trial has the whole graph

    def __init__(self, recipe: NodesRecipe, graph: Graph) -> None:
        self.recipe: NodesRecipe = recipe
        self.labels, self.files = graph.label_names, {}
        self.config = model_config(
            recipe,
            num_features=graph.features.size(1),
            num_labels=len(graph.label_names),
            normalised=recipe.data.normalise,
            undirected=recipe.data.undirected,
        )
        self._graph = graph
        self._structure = structure(self.config, graph.edges, len(graph))

    def objective(self) -> Objective:
        return LabelCrossEntropy(smoothing=self.recipe.training.label_smoothing)

    def examples(self) -> Examples:
        drawn = isinstance(self.config, GraphTransformerConfig) and self.config.node_positions == "laplacian"
        return self._examples("train", self.recipe.training.seed if drawn else None)

    def loader(self, group: Group = SINGLE) -> Loader:
        if group.size > 1:
            raise RecipeError(
                f"a graph is one example, which {group.size} workers cannot share", "leave out --workers"
            )
        return super().loader(group)

    def validate(self, model: Any) -> dict[str, float]:
        loss, table = _look(model, self._graph, self._examples("valid"), "valid")
        return {"loss": loss, "accuracy": 100 * accuracy(table)}

    def test(self, model: Any) -> list[Score]:
        if "test" not in self._graph.splits:
            return []
        return _measured(model, self._graph, self._examples("test")).scores

    def _examples(self, split: Split, seed: int | None = None) -> GraphExamples:
        return GraphExamples(self._graph, split, *self._structure, seed=seed)


def _look(model: Model, graph: Graph, examples: GraphExamples, split: Split) -> tuple[float, np.ndarray]:
    """The mean loss of the nodes of a split, and which of their classes are taken for which."""
    batch = examples.batch(WHOLE, 0).to(model.device)
    nodes = graph.splits[split].to(model.device)
    with torch.no_grad():
        logits = model(*batch.inputs)[nodes].float()
    labels = batch.labels[nodes]
    table = confusion(labels.cpu().numpy(), logits.argmax(-1).cpu().numpy(), logits.size(1))
    return float(F.cross_entropy(logits, labels, reduction="sum")) / len(nodes), table


def _measured(model: Model, graph: Graph, examples: GraphExamples) -> Measured:
    _, table = _look(model, graph, examples, "test")
    return Measured(scores=class_test_scores(table, f"nodes:{table.sum()}"), confusion=table)


def hold(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """The test nodes of a graph; its features, and their classes, are those that the model knows."""
    model_that("classifies nodes of a graph", GraphModel, loaded)
    recipe = cast(NodesRecipe, source.recipe)
    if data is None:
        graph = read_test_graph(recipe.data, source.base, loaded.labels)
    else:
        graph = read_test_graph(replace(recipe.data, file=data), Path.cwd(), loaded.labels)
    refuse_other_features(graph, loaded)
    examples = GraphExamples(graph, "test", *structure(loaded.config, graph.edges, len(graph)))
    return HeldOutData(
        counted=f"{len(graph.splits['test']):,} nodes",
        measure=partial(_measured, graph=graph, examples=examples),
    )


def refuse_other_features(graph: Graph, loaded: LoadedModel) -> None:
    """See that the nodes have as many features as the model reads."""
    features, wanted = graph.features.size(1), getattr(loaded.config, "num_features", 0)
    if features != wanted:
        raise DataError(
            f"{graph.name}: nodes have {features:,} features, the model reads {wanted:,}",
            "give the features that the model was trained on, in their order",
        )


def structure(
    config: ModelConfig, edges: Edges, num_nodes: int
) -> tuple[
    tuple[Int64[Tensor, "2 pairs"], Int64[Tensor, " pairs"]] | None, Float[Tensor, "nodes places"] | None
]:
    """What the model reads beside features and edges: who is near whom, and where in the graph a node is."""
    if not isinstance(config, GraphTransformerConfig):
        return None, None
    make = {"random_walk": random_walk_positions, "laplacian": laplacian_positions}.get(config.node_positions)
    positions = make(edges, num_nodes, config.num_node_positions) if make else None
    return near_pairs(edges, num_nodes, config.max_distance), positions


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> NodeClassification:
    """Read the graph; it stays in memory. A trial takes all of it: one update is one look at it anyway."""
    recipe = cast(NodesRecipe, source.recipe)
    graph = read_graph(recipe.data, source.base)
    refuse_other_data({"file": (graph.name, graph.fingerprint())}, folder)
    alone = f", {graph.isolated:,} nodes have none" if graph.isolated else ""
    say(
        f"graph: {len(graph):,} nodes with {graph.features.size(1):,} features, {len(graph.label_names)}"
        f" classes; {graph.edges.size(1):,} edges, counted in each direction{alone}"
    )
    counts = {split: len(nodes) for split, nodes in graph.splits.items()}
    names = {"train": "training", "valid": "validation", "test": "test"}
    say("; ".join(f"{names[split]}: {count:,} nodes" for split, count in counts.items()))
    return NodeClassification(recipe, graph)
