"""A model as ONNX graphs, by torch's exporter.

An encoder-decoder has two: `encoder.onnx` reads sources, and `decoder.onnx` target ids that follow those of
its cache. A decoder-only model has `decoder.onnx`. A cache may be empty, so the same graph reads a prompt and
makes a step. The number of rows and all lengths are dynamic axes.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.errors import RunError
from regard.exports.onnx_modules import GrownCache, GrownDecoderCache, GrownStack, traceable
from regard.layers.cache import KeyValue
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
# Shapes of the example that is traced. They differ, so that the exporter takes no two axes for one.
EXAMPLE_ROWS, EXAMPLE_NEW_LEN, EXAMPLE_PAST_LEN, EXAMPLE_SRC_LEN = 3, 2, 4, 5
# Weights within a graph's own file; above it they have a file beside it. Protobuf reads no file above 2 GB.
MAX_EMBEDDED_BYTES = 3 << 29


class EncoderGraph(nn.Module):
    """Source ids -> the memory: keys and values that each decoder block attends to.

    They alternate: the keys of the first block, its values, the keys of the second.
    """

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: Int64[Tensor, "rows src_len"], lengths: Int64[Tensor, " rows"]
    ) -> list[Float[Tensor, "rows kv_heads src_len d_head"]]:
        memory = self.model.encode(ids, lengths)
        return [tensor for pair in self.model.decoder.read(memory.hidden) for tensor in pair]


class CrossDecoderGraph(nn.Module):
    """Target ids, a memory and a cache -> logits, and the longer cache (past_len + new_len).

    `lengths` are those of the sources. `memory` is the output of `EncoderGraph`; keys and values alternate in
    `past` and in the returned cache, too.
    """

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        ids: Int64[Tensor, "rows new_len"],
        lengths: Int64[Tensor, " rows"],
        memory: list[Float[Tensor, "rows kv_heads src_len d_head"]],
        past: list[Float[Tensor, "rows kv_heads past_len d_head"]],
    ) -> tuple[Float[Tensor, "rows new_len vocab"], list[Tensor]]:
        mask = self.model.memory_mask(lengths, memory[0].size(2))
        caches = [GrownCache(pair) for pair in pairs(past)]
        logits = self.model.extend(ids, GrownDecoderCache(pairs(memory), mask, caches))
        return logits, [tensor for cache in caches for tensor in cache.pair]


class DecoderGraph(nn.Module):
    """Ids and a cache -> logits, and the longer cache; see `CrossDecoderGraph`."""

    def __init__(self, model: DecoderOnly) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        ids: Int64[Tensor, "rows new_len"],
        past: list[Float[Tensor, "rows kv_heads past_len d_head"]],
    ) -> tuple[Float[Tensor, "rows new_len vocab"], list[Tensor]]:
        caches = [GrownCache(pair) for pair in pairs(past)]
        logits = self.model.extend(ids, GrownStack(caches))
        return logits, [tensor for cache in caches for tensor in cache.pair]


def save_graphs(model: EncoderDecoder | DecoderOnly, folder: Path) -> None:
    """Write `decoder.onnx` and, of an encoder-decoder, `encoder.onnx` into a folder.

    Raises:
        RunError: the exporter cannot trace the model.
    """
    copied: Any = traceable(model)
    ids = torch.ones(EXAMPLE_ROWS, EXAMPLE_NEW_LEN, dtype=torch.int64)
    layers = len(copied.decoder.blocks if isinstance(copied, EncoderDecoder) else copied.blocks)
    past = example_cache(copied, layers, EXAMPLE_PAST_LEN)
    lengths_axes, ids_axes, src_axes = {0: "rows"}, {0: "rows", 1: "new_len"}, {0: "rows", 1: "src_len"}
    past_axes = [{0: "rows", 2: "past_len"}] * len(past)
    past_names, cache_names = names_of_layers("past_", layers), names_of_layers("", layers)
    if isinstance(copied, DecoderOnly):
        save_graph(
            DecoderGraph(copied),
            folder / DECODER,
            (ids, past),
            (ids_axes, past_axes),
            input_names=["ids", *past_names],
            output_names=["logits", *cache_names],
        )
        return
    lengths = torch.tensor([EXAMPLE_SRC_LEN, EXAMPLE_SRC_LEN - 1, 2])
    memory_names = names_of_layers("memory_", layers)
    save_graph(
        EncoderGraph(copied),
        folder / ENCODER,
        (torch.ones(EXAMPLE_ROWS, EXAMPLE_SRC_LEN, dtype=torch.int64), lengths),
        (src_axes, lengths_axes),
        input_names=["ids", "lengths"],
        output_names=memory_names,
    )
    memory = example_cache(copied, layers, EXAMPLE_SRC_LEN)
    save_graph(
        CrossDecoderGraph(copied),
        folder / DECODER,
        (ids, lengths, memory, past),
        (ids_axes, lengths_axes, [{0: "rows", 2: "src_len"}] * len(memory), past_axes),
        input_names=["ids", "lengths", *memory_names, *past_names],
        output_names=["logits", *cache_names],
    )


def pairs(tensors: Sequence[Tensor]) -> list[KeyValue]:
    """The keys and values of each layer, from a list in which they alternate."""
    return [KeyValue(keys, values) for keys, values in zip(tensors[::2], tensors[1::2], strict=True)]


def names_of_layers(prefix: str, layers: int) -> list[str]:
    """The names of alternating keys and values in a graph: `key_0`, `value_0`, `key_1`, after the prefix."""
    return [f"{prefix}{part}_{layer}" for layer in range(layers) for part in ("key", "value")]


def example_cache(model: Any, layers: int, length: int) -> list[Tensor]:
    """Alternating keys and values of each layer, of `length` positions, to trace with."""
    config = model.config
    shape = (EXAMPLE_ROWS, config.num_kv_heads or config.num_heads, length, config.d_head)
    return [torch.ones(shape) for _ in range(2 * layers)]


def save_graph(
    graph: nn.Module,
    path: Path,
    example_inputs: tuple[Any, ...],
    axes: tuple[Any, ...],
    *,
    input_names: list[str],
    output_names: list[str],
) -> None:
    """Trace a graph with `example_inputs` and write it; see `MAX_EMBEDDED_BYTES`.

    Args:
        axes: for each input the names of its dynamic axes, by their numbers.
        input_names, output_names: of all tensors, those in lists one by one.

    Raises:
        RunError: the exporter cannot trace it.
    """
    try:
        with torch.no_grad(), _silent():
            program = torch.onnx.export(
                graph.eval(),
                example_inputs,
                dynamo=True,
                dynamic_shapes=axes,
                input_names=input_names,
                output_names=output_names,
                verbose=False,
            )
    except Exception as error:
        raise RunError(
            f"torch cannot export {path.name}: {_reason(error)[:300]}",
            "nothing was written; registered parts and models must not branch on sizes, of others please"
            " report this",
        ) from error
    assert program is not None
    _strip(program.model)
    size = sum(weight.numel() * weight.element_size() for weight in graph.parameters())
    program.save(str(path), external_data=size > MAX_EMBEDDED_BYTES)


def _reason(error: BaseException) -> str:
    """What went wrong first, in a line: the exporter's own message is a page of advice about itself."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join([f"{type(error).__name__}:", *str(error).strip().splitlines()[:1]])


def _strip(model: Any) -> None:
    """Remove the metadata of a graph: the lines of code behind each node, with paths of this machine."""
    for part in (
        model,
        model.graph,
        *model.graph.inputs,
        *model.graph.outputs,
        *model.graph.initializers.values(),
    ):
        part.metadata_props.clear()
    for node in model.graph.all_nodes():
        node.metadata_props.clear()
        for value in node.outputs:
            value.metadata_props.clear()


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Suppresses what torch's exporter warns, logs and prints about itself."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
