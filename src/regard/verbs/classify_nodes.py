"""Classify the nodes of a graph: the class and the probability of each node, in order."""

from collections.abc import Iterator
from pathlib import Path

import torch

from regard.data.catalogue import is_spec
from regard.data.graph_files import GraphSettings, read_unlabelled_graph
from regard.models.graph import GraphConfig, GraphModel, GraphTransformerConfig
from regard.verbs.classify import ClassAnswer, ClassPrediction, candidates, class_answer
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.load_encoder import probabilities, refuse_other_labels
from regard.verbs.shared.model_loading import config_class_of, model_that
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.suggested_recipes import needs_model
from regard.verbs.tasks.nodes import refuse_other_features, structural_inputs


class NodeClassifier:
    """A model, loaded once, that classifies the nodes of graphs.

    Args:
        model: a model or run folder, or what `regard.load` gives.
        top: how many classes to return for each node, most likely first.
    """

    @needs_model
    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel,
        *,
        top: int = 1,
        runtime: Runtime = DEFAULT_RUNTIME,
    ) -> None:
        loaded = open_model(model, runtime)
        self.loaded, self.labels, self.top = loaded, loaded.labels, top
        self.model = model_that("classifies nodes of a graph", GraphModel, loaded)
        refuse_other_labels(loaded, self.model.config.num_labels)

    def __call__(self, file: str | Path) -> Iterator[ClassPrediction]:
        """The classes of each node of the graph in an NPZ file (`features`, `edges`), or in NAME:FILE.

        Features are normalised as in training. `line` of a result is the number of the node, from 1.
        """
        config, name = self.model.config, str(file)
        path = name if is_spec(name) else str(Path(name).absolute())
        settings = GraphSettings(file=path, undirected=config.undirected, normalise=config.normalised)
        features, edges = read_unlabelled_graph(settings, Path())
        refuse_other_features(name, features, config)
        pairs, positions = structural_inputs(config, edges, features.size(0))
        inputs = (features, edges) if pairs is None else (features, *pairs, positions)
        device = self.model.device
        with torch.inference_mode():
            logits = self.model(*(None if each is None else each.to(device) for each in inputs))
        for number, row in enumerate(probabilities(logits), start=1):
            yield ClassPrediction(line=number, text="", candidates=candidates(row, self.labels, self.top))


def reads_graphs(model: str | Path) -> bool:
    """True if the model in a folder is for graphs."""
    return issubclass(config_class_of(model), GraphConfig | GraphTransformerConfig)


@needs_model
@python_call
def classify_nodes(
    input: str | Path,
    *,
    model: AnyModel,
    top: int = 1,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> list[ClassAnswer]:
    """The class of each node of the graph in an NPZ file (`features`, `edges`), or in NAME:FILE.

    With `top` above 1 the result for a node is a list of `top` (label, probability), most likely first.
    For many calls keep a `NodeClassifier`.

    Args:
        input: the file of the graph.
        model: a model or run folder, or what `regard.load` gives.
        top: how many classes to return for each node, most likely first.

    Raises:
        DataError: the file is damaged, or its nodes do not have as many features as the model reads.
        FolderError: the model is not for graphs.
    """
    nodes = NodeClassifier(model, top=top, runtime=runtime)(input)
    return [class_answer(node, top) for node in nodes]
