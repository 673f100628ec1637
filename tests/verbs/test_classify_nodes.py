"""The nodes of a graph in a file are classified."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.cli import run
from regard.errors import DataError, FolderError
from regard.models.build import build_model
from regard.models.graph import GraphConfig, GraphTransformerConfig
from regard.verbs.classify_nodes import NodeClassifier, classify_nodes
from regard.weights.folder import write_folder
from regard.weights.model_folder import load_model, model_files
from regard.weights.tensors import model_tensors

LABELS = ("theory", "practice", "neither")
SIZES = {"num_features": 4, "num_labels": 3}
CONFIGS = {
    "gat": GraphConfig(**SIZES, d_model=16, num_heads=4),
    "as they point, as they are": GraphConfig(
        **SIZES, d_model=16, num_heads=4, normalised=False, undirected=False
    ),
    "graph_transformer": GraphTransformerConfig(
        **SIZES, d_model=16, num_heads=4, d_ff=16, max_distance=2, num_node_positions=3
    ),
}
FEATURES = np.array([[1, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 0], [0, 1, 1, 0]], np.float32)
EDGES = np.array([[0, 1], [1, 2]])


def write(folder, config, labels=LABELS):
    weights = model_tensors(build_model(config, seed=3))
    files = model_files(config, labels, {}, 'name = "untrained"\n')
    write_folder(folder / "model", {**files, "model.safetensors": weights, "README.md": b"# untrained\n"})
    return folder / "model"


@pytest.fixture
def graph(tmp_path):
    np.savez(tmp_path / "graph.npz", features=FEATURES, edges=EDGES)
    return tmp_path / "graph.npz"


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_each_node_gets_its_classes_most_likely_first(tmp_path, graph, config):
    found = list(NodeClassifier(write(tmp_path, config), top=3)(graph))
    assert [each.line for each in found] == [1, 2, 3, 4]
    for each in found:
        shares = [candidate.probability for candidate in each.candidates]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1)
        assert {candidate.label for candidate in each.candidates} == set(LABELS)
    labels = classify_nodes(graph, model=tmp_path / "model")
    assert labels == [each.label for each in found]
    top = classify_nodes(graph, model=tmp_path / "model", top=2)
    assert [node[0][0] for node in top] == labels


def test_features_and_edges_are_read_as_in_training(tmp_path, graph):
    """The model folder records whether features were normalised and edges made undirected."""
    path = write(tmp_path, CONFIGS["as they point, as they are"])
    logits = load_model(path).model(torch.from_numpy(FEATURES), torch.from_numpy(EDGES))
    [best] = [each.candidates[0] for each in NodeClassifier(path)(graph) if each.line == 3]
    assert best.probability == pytest.approx(logits.softmax(-1)[2].max().item())


def test_nodes_of_another_width_are_refused(tmp_path, graph):
    np.savez(graph, features=np.ones((4, 9)), edges=EDGES)
    with pytest.raises(DataError, match="9 features, the model reads 4"):
        classify_nodes(graph, model=write(tmp_path, CONFIGS["gat"]))


def test_a_model_of_other_things_is_refused(untrained, graph):
    with pytest.raises(FolderError, match="not a model that classifies nodes"):
        classify_nodes(graph, model=untrained)


def test_labels_of_another_model_are_refused(tmp_path, graph):
    with pytest.raises(FolderError, match="2 labels for 3 classes"):
        classify_nodes(graph, model=write(tmp_path, CONFIGS["gat"], labels=("a", "b")))


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_the_shell_reads_a_graph_from_a_file(tmp_path, graph, config, capsys):
    arguments = ["classify", "--model", str(write(tmp_path, config)), "--input", str(graph)]
    assert run(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    expected = regard.classify_nodes(graph, model=tmp_path / "model")
    assert [line.split("\t")[0] for line in lines] == expected
    assert run([*arguments, "--top", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["1", "1", "2", "2", "3", "3", "4", "4"]
    assert run([*arguments, "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["label"] for record in records] == expected


def test_the_hint_for_a_graph_model_that_is_given_text_is_a_command_that_works(tmp_path, graph, capsys):
    path = write(tmp_path, CONFIGS["gat"])
    assert run(["classify", "a text", "--model", str(path)]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert "not a model that classifies texts" in error
    command = hint.split("`")[1].removeprefix("regard ").replace("GRAPH.npz", str(graph)).split()
    assert run(command) == 0
