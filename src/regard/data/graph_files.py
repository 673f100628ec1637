"""Reads graphs from NPZ files and validates everything in them."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.data.arrays import read_npz, shape_of
from regard.data.batch import IGNORED
from regard.data.catalogue import find_file, is_spec
from regard.data.graphs import Graph, Split
from regard.errors import DataError, did_you_mean

SPLITS: tuple[Split, ...] = ("train", "valid", "test")
SPARSE = 0.2  # features with a smaller share of non-zero values become a sparse tensor

# Accepted names of each array: ours first, then those of Planetoid and PyTorch Geometric.
ARRAY_NAMES = {
    "features": ("features", "x"),
    "edges": ("edges", "edge_index"),
    "labels": ("labels", "y"),
    "train": ("train", "train_idx", "train_mask"),
    "valid": ("valid", "val_idx", "val_mask"),
    "test": ("test", "test_idx", "test_mask"),
    "label_names": ("label_names",),
}
CSR = ("indptr", "indices", "data", "shape")  # the arrays of a sparse feature matrix


@dataclass(frozen=True, kw_only=True)
class GraphSettings:
    """An NPZ file with a graph: a path, or `NAME:FILE` of the catalogue.

    It holds `features` (nodes x features, or a CSR matrix in `features_indptr`, `_indices`, `_data` and
    `_shape`), `edges` (2 x edges: sources, targets), `labels` (a class for each node from 0, -1 for none),
    and the splits `train`, `valid` and `test`, each a mask over all nodes or node numbers from 0; optionally
    `label_names`. Planetoid's names are accepted too: x, y, edge_index, val_idx.

    `undirected`: an edge from a to b also leads from b to a. `normalise`: each row of the features is divided
    by its sum, as is usual for bags of words.
    """

    file: str  # the file of the graph, its labels and its splits
    undirected: bool = True
    normalise: bool = True


def read_graph(settings: GraphSettings, base: Path) -> Graph:
    """Reads and validates a graph; a relative path starts at `base`.

    Raises:
        DataError: the file is missing, damaged or has another format; or its content is inconsistent: an edge
            to a missing node, a feature that is not a number, a node in two splits.
    """
    arrays, path = _arrays(settings, base, needed=("labels", "train", "valid"))
    features, edges = _features_and_edges(arrays, settings, path)
    num_nodes = features.size(0)
    labels = _labels(arrays["labels"], num_nodes, path)
    splits: dict[Split, np.ndarray] = {
        split: _nodes(arrays[split], split, num_nodes, path) for split in SPLITS if split in arrays
    }
    _refuse_overlap(splits, path)
    _refuse_unlabelled(splits, labels, path)
    return Graph(
        features=features,
        edges=edges,
        labels=torch.from_numpy(np.where(labels < 0, IGNORED, labels)),
        splits={split: torch.from_numpy(nodes) for split, nodes in splits.items()},
        label_names=_label_names(arrays.get("label_names"), labels, splits["train"], path),
        name=settings.file,
    )


def read_test_graph(settings: GraphSettings, base: Path, label_names: tuple[str, ...]) -> Graph:
    """Reads a graph with its test split only, its classes mapped to a model's `label_names`.

    Classes are matched by name if the file has label names, else by number. Other splits and the labels of
    other nodes are ignored.

    Raises:
        DataError: as `read_graph`; there are no test nodes, or one has a class that the model does not have.
    """
    arrays, path = _arrays(settings, base, needed=("labels",))
    if "test" not in arrays:
        raise DataError(f"{path}: the graph has no test nodes", "give it an array `test`")
    features, edges = _features_and_edges(arrays, settings, path)
    labels = _labels(arrays["labels"], len(features), path)
    nodes = _nodes(arrays["test"], "test", len(features), path)
    _refuse_without_label(nodes, "test", labels, path)
    names = arrays.get("label_names")
    file_names = label_names if names is None else _names(names, path)
    known = {number: label_names.index(name) for number, name in enumerate(file_names) if name in label_names}
    for node, label in zip(nodes.tolist(), labels[nodes].tolist(), strict=True):
        if label not in known:
            name = file_names[label] if label < len(file_names) else label
            raise DataError(
                f"{path}: node {node} of 'test' has label {name!r}, which the model does not have",
                f"its labels are {', '.join(label_names)}",
            )
    classes = torch.full((len(features),), IGNORED)
    classes[nodes] = torch.tensor([known[label] for label in labels[nodes].tolist()])
    return Graph(
        features=features,
        edges=edges,
        labels=classes,
        splits={"test": torch.from_numpy(nodes)},
        label_names=label_names,
        name=settings.file,
    )


def read_unlabelled_graph(
    settings: GraphSettings, base: Path
) -> tuple[Float[Tensor, "nodes features"], Int64[Tensor, "2 edges"]]:
    """Reads only the features and edges of a graph, to classify its nodes.

    Raises:
        DataError: as `read_graph`.
    """
    arrays, path = _arrays(settings, base, needed=())
    return _features_and_edges(arrays, settings, path)


def _arrays(
    settings: GraphSettings, base: Path, needed: tuple[str, ...]
) -> tuple[dict[str, np.ndarray], Path]:
    """The arrays of the file under regard's names, and the file's path; DataError if one is missing."""
    path = find_file(settings.file) if is_spec(settings.file) else base / Path(settings.file).expanduser()
    return _named(read_npz(path), path, needed), path


def _features_and_edges(
    arrays: Mapping[str, np.ndarray], settings: GraphSettings, path: Path
) -> tuple[Float[Tensor, "nodes features"], Int64[Tensor, "2 edges"]]:
    features = _features(arrays, path, settings.normalise)
    edges = _edges(arrays["edges"], features.size(0), settings.undirected, path)
    return features, torch.from_numpy(edges)


def _named(arrays: Mapping[str, np.ndarray], path: Path, needed: tuple[str, ...]) -> dict[str, np.ndarray]:
    our_names = {alias: name for name, accepted in ARRAY_NAMES.items() for alias in accepted}
    for part in CSR:
        our_names |= {f"{alias}_{part}": f"features_{part}" for alias in ARRAY_NAMES["features"]}
    found: dict[str, np.ndarray] = {}
    for name_in_file, array in arrays.items():
        if name_in_file not in our_names:
            raise DataError(f"{path}: unknown array {name_in_file!r}", did_you_mean(name_in_file, our_names))
        if our_names[name_in_file] in found:
            raise DataError(
                f"{path} has {our_names[name_in_file]} twice, once as {name_in_file!r}", "remove one of them"
            )
        found[our_names[name_in_file]] = array
    sparse = [f"features_{part}" for part in CSR]
    for name in [*(sparse if "features_indptr" in found else ["features"]), "edges", *needed]:
        if name not in found:
            raise DataError(f"{path} has no array {name!r}", f"its arrays are {', '.join(arrays) or 'none'}")
    if "features" in found and "features_indptr" in found:
        raise DataError(f"{path} has features twice, dense and sparse", "remove one of them")
    return found


def _features(
    arrays: Mapping[str, np.ndarray], path: Path, normalise: bool
) -> Float[Tensor, "nodes features"]:
    if "features" in arrays:
        dense = arrays["features"]
        if dense.ndim != 2 or not dense.size:
            raise DataError(
                f"{path}: features are {shape_of(dense)}", "they must be a matrix, nodes x features"
            )
        _refuse_not_numeric(dense, "features", path)
        rows, columns = np.nonzero(dense)
        values, (num_nodes, width) = dense[rows, columns], dense.shape
    else:
        rows, columns, values, num_nodes, width = _csr(arrays, path)
    given = values
    with np.errstate(over="ignore"):  # too large values become infinite and are refused below
        values = given.astype(np.float32)
    if not np.isfinite(values).all():
        place = int(np.argmin(np.isfinite(values)))
        raise DataError(
            f"{path}: feature {columns[place]} of node {rows[place]} is {given[place]}",
            "every feature must be a finite number, as float32",
        )
    if normalise:
        sums = np.bincount(rows, np.abs(values), minlength=num_nodes)
        values = (values / sums[rows]).astype(np.float32)  # no value is 0, so no sum is
    sparse = torch.sparse_coo_tensor(
        torch.from_numpy(np.stack([rows, columns]).astype(np.int64)),
        torch.from_numpy(values),
        (num_nodes, width),
        is_coalesced=True,
        check_invariants=False,
    )
    return sparse if len(values) < SPARSE * num_nodes * width else sparse.to_dense()


def _csr(arrays: Mapping[str, np.ndarray], path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, int]:
    """Rows, columns and values of the non-zero entries in row order, and the matrix's height and width."""
    starts, columns, values, shape = (arrays[f"features_{part}"] for part in CSR)
    hint = "write it with scipy.sparse.csr_matrix, duplicates summed"
    for name, part in zip(CSR, (starts, columns, values, shape), strict=True):
        if part.ndim != 1 or (name != "data" and part.dtype.kind not in "iu"):
            raise DataError(f"{path}: features_{name} is {part.dtype}, {shape_of(part)}", hint)
    _refuse_not_numeric(values, "features_data", path)
    if len(shape) != 2 or shape.min() < 1 or len(starts) != shape[0] + 1:
        raise DataError(f"{path}: features_indptr and features_shape do not match", hint)
    num_nodes, width = shape.tolist()
    starts, columns = starts.astype(np.int64), columns.astype(np.int64)
    if starts[0] or (np.diff(starts) < 0).any() or not starts[-1] == len(columns) == len(values):
        raise DataError(f"{path}: features_indptr, features_indices and features_data do not match", hint)
    rows = np.repeat(np.arange(num_nodes), np.diff(starts))
    if len(columns) and not 0 <= columns.min() <= columns.max() < width:
        raise DataError(f"{path}: features_indices are outside the {width:,} columns", hint)
    order = np.lexsort((columns, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    if (np.diff(rows * width + columns) == 0).any():
        raise DataError(f"{path}: a node has the same feature twice", hint)
    there = values != 0
    return rows[there], columns[there], values[there], num_nodes, width


def _labels(array: np.ndarray, num_nodes: int, path: Path) -> np.ndarray:
    """The class of each node; below 0 for nodes without one."""
    if array.shape != (num_nodes,):
        raise DataError(
            f"{path}: labels are {shape_of(array)}, but features are of {num_nodes:,} nodes",
            "give each node a label, -1 for none",
        )
    return _as_integers(array, "labels", path)


def _nodes(array: np.ndarray, split: Split, num_nodes: int, path: Path) -> np.ndarray:
    """The node numbers of a split in order, from a mask or a list of numbers."""
    if array.dtype == np.bool_:
        if array.shape != (num_nodes,):
            raise DataError(
                f"{path}: the mask {split!r} is {shape_of(array)}, but there are {num_nodes:,} nodes",
                "a mask has True or False for each node",
            )
        nodes = np.flatnonzero(array)
    else:
        if array.ndim != 1:
            raise DataError(f"{path}: {split!r} is {shape_of(array)}", "give a list of nodes or a mask")
        nodes = np.sort(_as_integers(array, split, path))
        if len(nodes) and not 0 <= nodes[0] <= nodes[-1] < num_nodes:
            invalid = nodes[0] if nodes[0] < 0 else nodes[-1]
            raise DataError(
                f"{path}: {split!r} names node {invalid} of {num_nodes:,}", "nodes are numbered from 0"
            )
        if (duplicates := nodes[:-1][np.diff(nodes) == 0]).size:
            raise DataError(f"{path}: {split!r} names node {duplicates[0]} twice", "name each node once")
    if not len(nodes):
        raise DataError(f"{path}: {split!r} has no node", "each split needs at least one node")
    return nodes


def _edges(array: np.ndarray, num_nodes: int, undirected: bool, path: Path) -> np.ndarray:
    """The edges sorted by target, then source, without duplicates and self-loops."""
    if array.ndim != 2 or array.shape[0] != 2:
        raise DataError(
            f"{path}: edges are {shape_of(array)}, not 2 x edges", "a row of sources, then a row of targets"
        )
    edges = _as_integers(array, "edges", path)
    outside = (edges < 0) | (edges >= num_nodes)
    if outside.any():
        place = int(outside.any(axis=0).argmax())
        raise DataError(
            f"{path}: edge {place} is from {edges[0, place]} to {edges[1, place]},"
            f" but there are {num_nodes:,} nodes",
            "nodes are numbered from 0",
        )
    if undirected:
        edges = np.concatenate([edges, edges[::-1]], axis=1)
    edges = edges[:, edges[0] != edges[1]]
    targets, sources = np.divmod(np.unique(edges[1] * num_nodes + edges[0]), num_nodes)
    return np.stack([sources, targets])


def _as_integers(array: np.ndarray, name: str, path: Path) -> np.ndarray:
    """The array as int64; other types than integers are refused."""
    if array.dtype.kind not in "iu":
        raise DataError(f"{path}: {name} are {array.dtype}, not integers", "store them as int64")
    return array.astype(np.int64)


def _refuse_not_numeric(array: np.ndarray, name: str, path: Path) -> None:
    if array.dtype.kind not in "biuf":
        raise DataError(f"{path}: {name} are {array.dtype}, not numbers", "store them as float32")


def _refuse_overlap(splits: Mapping[Split, np.ndarray], path: Path) -> None:
    """Raises a DataError if a node is in two splits."""
    for (first, ones), (second, accepted) in itertools.combinations(splits.items(), 2):
        both = np.intersect1d(ones, accepted)
        if len(both):
            raise DataError(
                f"{path}: node {both[0]} is in {first!r} and in {second!r}",
                f"{len(both):,} nodes are in both; put each into one split",
            )


def _refuse_unlabelled(splits: Mapping[Split, np.ndarray], labels: np.ndarray, path: Path) -> None:
    """Raises a DataError unless each node of a split has a label that occurs in training."""
    trained = np.unique(labels[splits["train"]])
    for split, nodes in splits.items():
        _refuse_without_label(nodes, split, labels, path)
        unknown = nodes[~np.isin(labels[nodes], trained)]
        if len(unknown):
            raise DataError(
                f"{path}: node {unknown[0]} of {split!r} has label {labels[unknown[0]]},"
                " which no training node has",
                f"{len(unknown):,} of {len(nodes):,} nodes have such a label",
            )


def _refuse_without_label(nodes: np.ndarray, split: Split, labels: np.ndarray, path: Path) -> None:
    without = nodes[labels[nodes] < 0]
    if len(without):
        raise DataError(
            f"{path}: node {without[0]} of {split!r} has no label", f"{len(without):,} of them have none"
        )


def _label_names(
    names: np.ndarray | None, labels: np.ndarray, train: np.ndarray, path: Path
) -> tuple[str, ...]:
    """The names of the classes; their numbers if the file has no names."""
    trained = labels[train]
    if trained.min() == trained.max():
        raise DataError(f"{path}: all training nodes have label {trained[0]}", "give two classes or more")
    largest = int(labels.max())
    if names is None:
        if largest >= len(labels):
            raise DataError(
                f"{path}: a label is {largest}, but there are only {len(labels):,} nodes",
                "number the labels from 0",
            )
        return tuple(map(str, range(largest + 1)))
    file_names = _names(names, path)
    if largest >= len(file_names):
        raise DataError(
            f"{path}: a label is {largest}, but there are {len(file_names)} label_names",
            "name all labels, from 0",
        )
    return file_names


def _names(names: np.ndarray, path: Path) -> tuple[str, ...]:
    """The file's class names, checked to be different texts."""
    if names.ndim != 1 or names.dtype.kind != "U" or len(set(names.tolist())) < len(names):
        raise DataError(f"{path}: label_names are not a list of different texts", "name each class once")
    return tuple(names.tolist())
