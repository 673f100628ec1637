"""The weights of an ONNX graph stored in fewer bits, and computed with in float32.

onnxruntime makes them float32 when it loads the graph, so it is as fast as before. Its dynamic quantisation
was weighed for int8: it is less exact, the files are larger, and translating was no faster. Its outputs also
depend on the batch, as one scale serves the activations of all rows.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from regard.exports.onnx_package import onnx

# By dynamic quantisation the mean difference of a log-probability of the included model was 0.18 instead of
# 0.05, and the files had 8.7 MB instead of 7.1.
SMALLEST = 256  # numbers of a tensor that is stored in fewer bits; constants stay exact
LARGEST = 127  # of int8


def store_in_float16(path: Path) -> None:
    """Store the weights of a graph in float16."""
    package = onnx()
    model = package.load(path)
    for weight in _weights(package, model):
        name, values = weight.name, package.numpy_helper.to_array(weight)
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and the certificate fails
            half = values.astype(np.float16)
        weight.CopyFrom(package.numpy_helper.from_array(half, f"{name}_float16"))
        _put_first(model, [_cast(package, weight.name, name)])
    _save(package, model, path)


def store_in_int8(path: Path) -> None:
    """Store the matrices of a graph in int8, with a scale for each output or, of embeddings, for each id."""
    package = onnx()
    model = package.load(path)
    uses: dict[str, set[str]] = defaultdict(set)
    for node in model.graph.node:
        for name in node.input:
            uses[name].add(node.op_type)
    for weight in _weights(package, model):
        if len(weight.dims) != 2:
            continue
        name, values = weight.name, package.numpy_helper.to_array(weight)
        by_row = bool(uses[name] & {"Gather", "Transpose"})
        scale = np.abs(values).max(axis=1 if by_row else 0, keepdims=True) / LARGEST
        whole = np.rint(values / np.where(scale > 0, scale, 1)).astype(np.int8)
        parts = {f"{name}_int8": whole, f"{name}_scale": scale.astype(np.float32)}
        stored, scales = (package.numpy_helper.from_array(part, key) for key, part in parts.items())
        weight.CopyFrom(stored)
        model.graph.initializer.append(scales)
        cast = _cast(package, stored.name, f"{name}_whole")
        _put_first(model, [cast, package.helper.make_node("Mul", [cast.output[0], scales.name], [name])])
    _save(package, model, path)


def _weights(package: Any, model: Any) -> list[Any]:
    """The stored tensors of a graph that are worth fewer bits."""
    return [
        each
        for each in model.graph.initializer
        if each.data_type == package.TensorProto.FLOAT and np.prod(each.dims) >= SMALLEST
    ]


def _cast(package: Any, name: str, output: str) -> Any:
    return package.helper.make_node("Cast", [name], [output], to=package.TensorProto.FLOAT)


def _put_first(model: Any, nodes: list[Any]) -> None:
    for node in reversed(nodes):
        model.graph.node.insert(0, node)


def _save(package: Any, model: Any, path: Path) -> None:
    """Write a graph over the one that was read, with its weights where they were."""
    beside = path.with_name(f"{path.name}.data")
    if beside.exists():
        beside.unlink()
        package.save(model, path, save_as_external_data=True, location=beside.name)
    else:
        package.save(model, path)
