"""Graphs are read completely, refused if inconsistent, and equal under all accepted array names."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.batch import IGNORED, Batch, LabelledBatch
from regard.data.examples import Examples
from regard.data.graph_files import GraphSettings, read_graph, read_test_graph, read_unlabelled_graph
from regard.data.graphs import GraphExamples
from regard.errors import DataError

# Six nodes, one (5) alone; a loop and an edge that is same feature twice.
ARRAYS = {
    "features": np.array([[2, 2, 0], [0, 0, 1], [1, 0, 3], [0, 0, 0], [4, 0, 0], [0, 1, 0]], np.float32),
    "edges": np.array([[0, 1, 2, 2, 4, 4], [1, 2, 1, 2, 3, 3]]),
    "labels": np.array([0, 1, 1, 0, -1, 1]),
    "train": np.array([1, 0]),
    "valid": np.array([2]),
    "test": np.array([False, False, False, True, False, True]),
}
CORA = Path(os.environ.get("REGARD_DATA", "/nowhere")) / "planetoid" / "cora.npz"


def read(folder, changes=None, *, without=(), **settings):
    arrays = {name: array for name, array in (ARRAYS | (changes or {})).items() if name not in without}
    np.savez(folder / "graph.npz", **arrays)
    return read_graph(GraphSettings(file="graph.npz", **settings), folder)


def pairs(edges):
    return set(zip(*edges.tolist(), strict=True))


def dense(graph):
    return graph.features.to_dense() if graph.features.is_sparse else graph.features


def csr(matrix):
    rows, columns = np.nonzero(matrix)
    return {
        "x_indptr": np.searchsorted(rows, np.arange(len(matrix) + 1)).astype(np.int32),
        "x_indices": columns.astype(np.int32),
        "x_data": matrix[rows, columns],
        "x_shape": np.array(matrix.shape),
    }


def test_a_graph_is_read_with_its_splits(tmp_path):
    graph = read(tmp_path, undirected=False, normalise=False)
    assert torch.equal(dense(graph), torch.from_numpy(ARRAYS["features"]))
    assert pairs(graph.edges) == {(0, 1), (1, 2), (2, 1), (4, 3)}
    assert graph.edges.size(1) == 4, "loops and doubles are left to the model"
    assert graph.labels.tolist() == [0, 1, 1, 0, IGNORED, 1]
    assert {split: nodes.tolist() for split, nodes in graph.splits.items()} == {
        "train": [0, 1],
        "valid": [2],
        "test": [3, 5],
    }
    assert graph.label_names == ("0", "1")
    assert (len(graph), graph.isolated) == (6, 1)


def test_an_undirected_edge_leads_both_ways(tmp_path):
    assert pairs(read(tmp_path).edges) == {(0, 1), (1, 0), (1, 2), (2, 1), (4, 3), (3, 4)}


def test_rows_are_divided_by_their_sums_and_empty_ones_stay_empty(tmp_path):
    rows = dense(read(tmp_path))
    torch.testing.assert_close(rows.sum(dim=1), torch.tensor([1.0, 1.0, 1.0, 0.0, 1.0, 1.0]))
    torch.testing.assert_close(rows[2], torch.tensor([0.25, 0.0, 0.75]))


def test_a_sparse_matrix_is_the_same_graph(tmp_path):
    one = read(tmp_path)
    other = read(tmp_path, csr(ARRAYS["features"]), without=["features"])
    assert one.fingerprint() == other.fingerprint()


def test_features_that_are_mostly_zero_are_kept_sparse(tmp_path):
    wide = np.zeros((6, 40), np.float32)
    wide[:, 3] = 1
    graph = read(tmp_path, {"features": wide})
    assert graph.features.is_sparse
    assert torch.equal(graph.features.to_dense(), torch.from_numpy(wide))
    assert not read(tmp_path).features.is_sparse


def test_the_names_of_other_libraries_are_known(tmp_path):
    arrays = {
        "x": ARRAYS["features"],
        "edge_index": ARRAYS["edges"],
        "y": ARRAYS["labels"],
        "train_mask": np.isin(np.arange(6), ARRAYS["train"]),
        "val_idx": ARRAYS["valid"],
        "test_mask": ARRAYS["test"],
    }
    np.savez(tmp_path / "other.npz", **arrays)
    reference = read_graph(GraphSettings(file="other.npz"), tmp_path)
    assert reference.fingerprint() == read(tmp_path).fingerprint()


def test_classes_have_names_where_the_file_gives_them(tmp_path):
    assert read(tmp_path, {"label_names": np.array(["theory", "practice"])}).label_names == (
        "theory",
        "practice",
    )


def test_the_fingerprint_is_of_all_that_is_read(tmp_path):
    changes = [
        {},
        {"features": ARRAYS["features"] + 1},
        {"edges": ARRAYS["edges"][:, 1:]},
        {"labels": np.array([0, 1, 1, 0, 0, 1])},
        {"valid": np.array([2, 4]), "labels": np.array([0, 1, 1, 0, 0, 1])},
        {"label_names": np.array(["a", "b"])},
    ]
    assert len({read(tmp_path, change).fingerprint() for change in changes}) == len(changes)


FEATURES, LABELS = ARRAYS["features"], ARRAYS["labels"]
NAN = FEATURES.copy()
NAN[2, 1] = np.nan


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": NAN}, "feature 1 of node 2 is nan"),
        ({"features": FEATURES.astype(float) * 1e300}, r"feature 0 of node 0 is 2e\+300"),
        ({"features": FEATURES[0]}, "features are 3"),
        ({"features": FEATURES[:0]}, "features are 0 x 3"),
        ({"features": np.full((6, 3), "a")}, "not numbers"),
        ({"features": FEATURES[:5]}, "labels are 6, but features are of 5 nodes"),
        ({"edges": np.array([[0, 6], [1, 2]])}, "edge 1 is from 6 to 2, but there are 6 nodes"),
        ({"edges": np.array([[0, -1], [1, 2]])}, "edge 1 is from -1 to 2"),
        ({"edges": ARRAYS["edges"].T}, "edges are 6 x 2, not 2 x edges"),
        ({"edges": ARRAYS["edges"].astype(float)}, "edges are float64, not integers"),
        ({"labels": np.array([0, 1, 1, np.nan, 1, 1])}, "labels are float64, not integers"),
        ({"labels": np.array([0, 1, 1, -1, -1, 1])}, "node 3 of 'test' has no label"),
        ({"labels": np.array([0, 1, 2, 0, 0, 1])}, "node 2 of 'valid' has label 2, which no training node"),
        ({"labels": np.array([1, 1, 1, 1, 1, 1])}, "all training nodes have label 1"),
        ({"labels": np.array([0, 9, 9, 0, 0, 9])}, "a label is 9, but there are only 6 nodes"),
        ({"label_names": np.array(["a"])}, "a label is 1, but there are 1 label_names"),
        ({"label_names": np.array(["a", "a"])}, "not a list of different texts"),
        ({"train": np.array([0, 1, 2])}, "node 2 is in 'train' and in 'valid'"),
        ({"train": np.array([0, 1, 6])}, "'train' names node 6 of 6"),
        ({"train": np.array([0, 1, -1])}, "'train' names node -1 of 6"),
        ({"train": np.array([0, 1, 1])}, "'train' names node 1 twice"),
        ({"valid": np.array([], np.int64)}, "'valid' has no node"),
        ({"test": np.array([True])}, "the mask 'test' is 1, but there are 6 nodes"),
        ({"train": np.array([[0, 1]])}, "'train' is 1 x 2"),
        ({"tset": ARRAYS["test"]}, "unknown array 'tset'"),
        ({"x": FEATURES}, "has features twice"),
        (csr(FEATURES), "has features twice"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path, changes, message):
    with pytest.raises(DataError, match=message) as refusal:
        read(tmp_path, changes)
    assert "graph.npz" in refusal.value.message
    assert refusal.value.hint


@pytest.mark.parametrize("name", ["features", "edges", "labels", "train", "valid"])
def test_what_is_missing_is_named(tmp_path, name):
    with pytest.raises(DataError, match=f"no array '{name}'"):
        read(tmp_path, without=[name])


@pytest.mark.parametrize(
    ("part", "array", "message"),
    [
        ("x_indptr", [0, 2, 3, 5, 5, 6], "x_shape|features_shape"),
        ("x_indptr", [0, 2, 3, 5, 5, 6, 8], "do not match"),
        ("x_indptr", [0, 3, 2, 5, 5, 6, 7], "do not match"),
        ("x_indices", [0, 1, 2, 0, 3, 0, 1], "are outside the 3 columns"),
        ("x_indices", [0, 0, 2, 0, 2, 0, 1], "same feature twice"),
        ("x_indices", [0.0, 1, 2, 0, 2, 0, 1], "float64"),
        ("x_data", [1, 1, 1, np.inf, 1, 1, 1], "feature 0 of node 2 is inf"),
        ("x_shape", [6], "do not match"),
    ],
)
def test_a_sparse_matrix_that_is_none_is_refused(tmp_path, part, array, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, {**csr(FEATURES), part: np.array(array)}, without=["features"])


def test_to_be_classified_a_graph_needs_no_labels(tmp_path):
    np.savez(tmp_path / "bare.npz", features=FEATURES, edges=ARRAYS["edges"])
    features, edges = read_unlabelled_graph(GraphSettings(file="bare.npz"), tmp_path)
    graph = read(tmp_path)
    assert torch.equal(features, graph.features)
    assert torch.equal(edges, graph.edges)


def scored(folder, changes=None, known=("0", "1")):
    needed = {name: ARRAYS[name] for name in ("features", "edges", "labels", "test")}
    np.savez(folder / "scored.npz", **(needed | (changes or {})))
    return read_test_graph(GraphSettings(file="scored.npz"), folder, known)


def test_to_be_scored_a_graph_needs_its_test_nodes_alone(tmp_path):
    whole, graph = read(tmp_path), scored(tmp_path)
    assert torch.equal(graph.labels_of("test"), whole.labels_of("test"))
    assert torch.equal(dense(graph), dense(whole))
    assert torch.equal(graph.edges, whole.edges)
    assert set(graph.splits) == {"test"}
    assert scored(tmp_path, {"labels": np.array([-1, 8, -1, 0, -1, 0])}).label_names == ("0", "1")


def test_classes_are_those_of_their_names_where_a_graph_has_names(tmp_path):
    names = {"label_names": np.array(["practice", "theory", "neither"])}
    graph = scored(tmp_path, names, known=("theory", "practice"))
    assert graph.labels_of("test").tolist() == [IGNORED, IGNORED, IGNORED, 1, IGNORED, 0]
    assert graph.label_names == ("theory", "practice")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": np.array([0, 1, 1, 0, -1, 2])}, "node 5 of 'test' has label 2, which the model does not"),
        ({"label_names": np.array(["0", "x"])}, "node 5 of 'test' has label 'x', which the model does not"),
        ({"label_names": np.array([], "U1")}, "node 3 of 'test' has label 0, which the model does not"),
        ({"labels": np.array([0, 1, 1, 0, -1, -1])}, "node 5 of 'test' has no label"),
        ({"test": np.array([], np.int64)}, "'test' has no node"),
    ],
)
def test_test_nodes_that_cannot_be_scored_are_named(tmp_path, changes, message):
    with pytest.raises(DataError, match=message) as refusal:
        scored(tmp_path, changes)
    assert refusal.value.hint


# Batches


def test_an_example_is_the_whole_graph_with_the_labels_of_its_split(tmp_path):
    graph = read(tmp_path)
    examples = GraphExamples(graph, "test")
    batch = examples.batch(np.zeros(1, np.int64), 0)
    assert isinstance(examples, Examples)
    assert isinstance(batch, Batch)
    assert isinstance(batch, LabelledBatch)
    assert batch.labels.tolist() == [IGNORED, IGNORED, IGNORED, 0, IGNORED, 1]
    assert (batch.num_targets, len(examples), batch.lines.tolist()) == (2, 1, [1])
    assert [part.shape for part in batch.inputs] == [graph.features.shape, graph.edges.shape]
    assert batch.to("cpu") is batch
    assert {part.device.type for part in batch.to("meta").inputs} == {"meta"}


def test_signs_of_positions_are_those_of_the_epoch(tmp_path):
    graph, places = read(tmp_path), torch.randn(6, 8)
    near = graph.edges, torch.ones(graph.edges.size(1), dtype=torch.int64)

    def positions(epoch, seed):
        return (
            GraphExamples(graph, "train", near, places, seed=seed)
            .batch(np.zeros(1, np.int64), epoch)
            .inputs[3]
        )

    assert torch.equal(positions(3, 1), positions(3, 1))
    assert not torch.equal(positions(3, 1), positions(4, 1))
    assert not torch.equal(positions(3, 1), positions(3, 2))
    assert torch.equal(positions(3, 1).abs(), places.abs())
    assert torch.equal(positions(3, None), places)


@pytest.mark.skipif(not CORA.exists(), reason="the data are not here")
def test_cora_has_the_sizes_of_its_page():
    graph = read_graph(GraphSettings(file="planetoid:cora.npz"), Path())
    assert (len(graph), graph.features.size(1), graph.edges.size(1)) == (2708, 1433, 10556)
    assert [len(graph.splits[split]) for split in ("train", "valid", "test")] == [140, 500, 1000]
    assert graph.isolated == 0
    assert len(graph.label_names) == 7
    citeseer = read_graph(GraphSettings(file="planetoid:citeseer.npz"), Path())
    assert citeseer.isolated == 48
    assert int((citeseer.labels == IGNORED).sum()) == 15
