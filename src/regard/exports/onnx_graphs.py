"""A model as ONNX graphs, by torch's exporter.

An encoder-decoder has two: `encoder.onnx` reads sources, and `decoder.onnx` target ids after those of its
cache. A decoder-only model has `decoder.onnx`. A cache may be empty, so one graph reads a prompt and makes a
step. All numbers of rows and lengths are free.
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
from regard.exports.onnx_modules import GrownCache, GrownStack, traceable
from regard.layers.cache import KeyValue
from regard.layers.masks import padding_mask
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
ROWS, NEW, HELD, SOURCE = 3, 2, 4, 5  # of the example that is traced, all different
EMBEDDED = 3 << 29  # bytes of weights in a graph's own file: one of more than 2 GB cannot be read


class EncoderGraph(nn.Module):
    """Source ids -> the keys and values that each block of the decoder attends to."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, ids: Int64[Tensor, "rows src_len"], lengths: Int64[Tensor, " rows"]
    ) -> list[Float[Tensor, "rows kv_heads src_len d_head"]]:
        memory = self.model.encode(ids, lengths)
        return [each for pair in self.model.decoder.read(memory.hidden) for each in pair]


class CrossDecoderGraph(nn.Module):
    """Target ids, a memory and a cache -> logits, and the longer cache."""

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
        mask = padding_mask(self.model.read_lengths(lengths), memory[0].size(2))
        caches = [GrownCache(pair) for pair in pairs(past)]
        hidden = self.model.decoder(ids, pairs(memory), mask, caches)
        return self.model.project(hidden), [each for cache in caches for each in cache.pair]


class DecoderGraph(nn.Module):
    """Ids and a cache -> logits, and the longer cache."""

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
        return logits, [each for cache in caches for each in cache.pair]


def save_graphs(model: EncoderDecoder | DecoderOnly, folder: Path) -> None:
    """Write the graphs of a model into a folder.

    Raises:
        RunError: the exporter cannot trace the model.
    """
    copied: Any = traceable(model)
    ids = torch.ones(ROWS, NEW, dtype=torch.int64)
    layers = len(copied.decoder.blocks if isinstance(copied, EncoderDecoder) else copied.blocks)
    past = examples(copied, layers, HELD)
    rows, new, held, source = {0: "rows"}, {0: "rows", 1: "new_len"}, "past_len", "src_len"
    past_axes = [{0: "rows", 2: held}] * len(past)
    past_names, cache_names = names_of_layers("past_", layers), names_of_layers("", layers)
    if isinstance(copied, DecoderOnly):
        save_graph(
            DecoderGraph(copied),
            folder / DECODER,
            (ids, past),
            (new, past_axes),
            inputs=["ids", *past_names],
            outputs=["logits", *cache_names],
        )
        return
    lengths = torch.tensor([SOURCE, SOURCE - 1, 2])
    memory_names = names_of_layers("memory_", layers)
    save_graph(
        EncoderGraph(copied),
        folder / ENCODER,
        (torch.ones(ROWS, SOURCE, dtype=torch.int64), lengths),
        ({0: "rows", 1: source}, rows),
        inputs=["ids", "lengths"],
        outputs=memory_names,
    )
    memory = examples(copied, layers, SOURCE)
    save_graph(
        CrossDecoderGraph(copied),
        folder / DECODER,
        (ids, lengths, memory, past),
        (new, rows, [{0: "rows", 2: source}] * len(memory), past_axes),
        inputs=["ids", "lengths", *memory_names, *past_names],
        outputs=["logits", *cache_names],
    )


def pairs(tensors: Sequence[Tensor]) -> list[KeyValue]:
    """Keys and values that follow each other, as pairs."""
    return [KeyValue(*tensors[place : place + 2]) for place in range(0, len(tensors), 2)]


def names_of_layers(prefix: str, layers: int) -> list[str]:
    """The names of the keys and values of layers in a graph."""
    return [f"{prefix}{each}_{layer}" for layer in range(layers) for each in ("key", "value")]


def examples(model: Any, layers: int, length: int) -> list[Tensor]:
    """Keys and values of each layer."""
    config = model.config
    shape = (ROWS, config.num_kv_heads or config.num_heads, length, config.d_head)
    return [torch.ones(shape) for _ in range(2 * layers)]


def save_graph(
    graph: nn.Module,
    path: Path,
    examples: tuple[Any, ...],
    axes: tuple[Any, ...],
    *,
    inputs: list[str],
    outputs: list[str],
) -> None:
    """Trace a graph and write it. Weights above `EMBEDDED` are in a file of their own beside it."""
    try:
        with torch.no_grad(), _silent():
            program = torch.onnx.export(
                graph.eval(),
                examples,
                dynamo=True,
                dynamic_shapes=axes,
                input_names=inputs,
                output_names=outputs,
                verbose=False,
            )
    except Exception as error:
        why = str(error).strip().splitlines() or [type(error).__name__]
        raise RunError(
            f"torch cannot export {path.name}: {why[0][:300]}",
            "nothing was written; registered parts must not branch on sizes, of others please report this",
        ) from error
    assert program is not None
    _strip(program.model)
    size = sum(each.numel() * each.element_size() for each in graph.parameters())
    program.save(str(path), external_data=size > EMBEDDED)


def _strip(model: Any) -> None:
    """Remove what a graph has of the machine that wrote it: the lines of code of each node."""
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
    """Without the warnings that torch's exporter has about itself."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
