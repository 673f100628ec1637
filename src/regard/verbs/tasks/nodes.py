"""Node classification in one graph with some known classes: graph attention, graph Transformers."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from regard.data.batch import IGNORED
from regard.data.examples import Examples
from regard.data.graph_files import GraphSettings, read_graph, read_test_graph
from regard.data.graph_structure import Edges, laplacian_positions, near_pairs, random_walk_positions
from regard.data.graphs import Graph, GraphExamples, Split
from regard.data.loader import Loader
from regard.distributed.group import SINGLE, Group
from regard.errors import DataError, RecipeError
from regard.evaluation.classification import ConfusionMatrix, accuracy, confusion
from regard.evaluation.score import Score
from regard.models.config import ModelConfig
from regard.models.graph import GraphConfig, GraphModel, GraphTransformerConfig
from regard.models.model import Model
from regard.training.objective import LabelCrossEntropy, Objective
from regard.verbs.shared.model_loading import model_that
from regard.verbs.tasks.classification import class_test_scores
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import HeldOutData, Say, ScoreReport, Task, model_config
from regard.verbs.tasks.validation_split import PART_NAMES
from regard.verbs.training_run.data_checks import refuse_other_data
from regard.weights.model_folder import LoadedModel

WHOLE_GRAPH = np.zeros(1, np.int64)  # the number of the only example, the graph
NearPairs = tuple[Int64[Tensor, "2 pairs"], Int64[Tensor, " pairs"]]  # pairs of nodes, and their distances
NODE_POSITIONS = {"random_walk": random_walk_positions, "laplacian": laplacian_positions}


@dataclass(frozen=True, kw_only=True)
class NodesSettings:
    """The section `[task]` of a recipe."""

    kind: Literal["nodes"]  # the task


@dataclass(frozen=True, kw_only=True)
class NodesRecipe(Recipe):
    """Recipe of a node classifier: graph, model, training."""

    model_kind: ClassVar[str] = "gat"
    cuts_texts: ClassVar[bool] = False
    other_model_kinds: ClassVar[bool] = True
    measured: ClassVar[tuple[str, ...]] = ("accuracy",)
    task: NodesSettings
    data: GraphSettings


class NodeClassification(Task):
    """A graph whose nodes are split into training, validation and test nodes."""

    use = "regard classify --model . --input GRAPH.npz"
    unit = "nodes"
    dry_run_share = 1.0  # a dry run uses the whole graph

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
        self._structure = structural_inputs(self.config, graph.edges, len(graph))

    def objective(self) -> Objective:
        return LabelCrossEntropy(smoothing=self.recipe.training.label_smoothing)

    def examples(self) -> Examples:
        config = self.config
        random_signs = isinstance(config, GraphTransformerConfig) and config.node_positions == "laplacian"
        return self._examples("train", self.recipe.training.seed if random_signs else None)

    def loader(self, group: Group = SINGLE) -> Loader:
        if group.size > 1:
            raise RecipeError(
                f"a graph is one example and cannot be shared by {group.size} workers", "leave out --workers"
            )
        return super().loader(group)

    def validate(self, model: Any) -> dict[str, float]:
        loss, table = _loss_and_confusion(model, self._examples("valid"))
        return {"loss": loss, "accuracy": 100 * accuracy(table)}

    def test(self, model: Any) -> list[Score]:
        if "test" not in self._graph.splits:
            return []
        return _evaluate(model, self._examples("test")).scores

    def _examples(self, split: Split, seed: int | None = None) -> GraphExamples:
        return GraphExamples(self._graph, split, *self._structure, seed=seed)


def _loss_and_confusion(model: Model, examples: GraphExamples) -> tuple[float, ConfusionMatrix]:
    """The mean loss of the nodes of the examples' split in nats, and their confusion matrix."""
    batch = examples.batch(WHOLE_GRAPH, 0).to(model.device)
    in_split = batch.labels != IGNORED
    with torch.no_grad():
        logits = model(*batch.inputs)[in_split].float()
    labels = batch.labels[in_split]
    table = confusion(labels.cpu().numpy(), logits.argmax(-1).cpu().numpy(), logits.size(1))
    return float(F.cross_entropy(logits, labels, reduction="sum")) / len(labels), table


def _evaluate(model: Model, examples: GraphExamples) -> ScoreReport:
    _, table = _loss_and_confusion(model, examples)
    return ScoreReport(scores=class_test_scores(table, f"nodes:{table.sum()}"), confusion=table)


def open_test_data(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """The test nodes of a graph; it must have the model's features and classes."""
    config = model_that("classifies nodes of a graph", GraphModel, loaded).config
    settings, base = cast(NodesRecipe, source.recipe).data, source.base
    if data is not None:
        settings, base = replace(settings, file=data), Path.cwd()
    graph = read_test_graph(settings, base, loaded.labels)
    refuse_other_features(graph.name, graph.features, config)
    examples = GraphExamples(graph, "test", *structural_inputs(config, graph.edges, len(graph)))
    return HeldOutData(
        size=f"{len(graph.splits['test']):,} nodes", evaluate=partial(_evaluate, examples=examples)
    )


def refuse_other_features(name: str, features: Tensor, config: GraphConfig | GraphTransformerConfig) -> None:
    """Raise a DataError if the nodes of a graph do not have as many features as the model reads."""
    if features.size(1) != config.num_features:
        raise DataError(
            f"{name}: nodes have {features.size(1):,} features, the model reads {config.num_features:,}",
            "give the features that the model was trained on, in the same order",
        )


def structural_inputs(
    config: ModelConfig, edges: Edges, num_nodes: int
) -> tuple[NearPairs | None, Float[Tensor, "nodes places"] | None]:
    """Additional inputs of a graph Transformer: pairs of near nodes, and node positions, if it has any.

    Both are None for other models.
    """
    if not isinstance(config, GraphTransformerConfig):
        return None, None
    encode = NODE_POSITIONS.get(config.node_positions)
    positions = encode(edges, num_nodes, config.num_node_positions) if encode else None
    return near_pairs(edges, num_nodes, config.max_distance), positions


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> NodeClassification:
    """Read the graph into memory. A dry run uses the whole graph, since one update uses all of it anyway."""
    recipe = cast(NodesRecipe, source.recipe)
    graph = read_graph(recipe.data, source.base)
    refuse_other_data({"file": (graph.name, graph.fingerprint())}, folder)
    isolated = f", {graph.isolated:,} nodes have none" if graph.isolated else ""
    say(
        f"graph: {len(graph):,} nodes with {graph.features.size(1):,} features, {len(graph.label_names)}"
        f" classes; {graph.edges.size(1):,} edges, counted in each direction{isolated}"
    )
    counts = {split: len(nodes) for split, nodes in graph.splits.items()}
    say("; ".join(f"{PART_NAMES[split]}: {count:,} nodes" for split, count in counts.items()))
    return NodeClassification(recipe, graph)
