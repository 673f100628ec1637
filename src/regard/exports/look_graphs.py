"""ONNX graphs that also put out what the views of a look show.

They are those of `onnx_graphs.py` with more outputs, named by the paths of a look: weights, queries, keys,
values and masks of each attention, and the output of each block. `decoder.onnx` projects the states of chosen
layers to logits: a search asks for the last layer, the logit lens for all. Who runs a graph names the outputs
that it wants.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.errors import UserError
from regard.exports.onnx_graphs import (
    DECODER,
    ENCODER,
    EXAMPLE_NEW_LEN,
    EXAMPLE_PAST_LEN,
    EXAMPLE_ROWS,
    EXAMPLE_SRC_LEN,
    example_cache,
    names_of_layers,
    pairs,
    save_graph,
)
from regard.exports.onnx_modules import GrownCache, GrownStack, traceable
from regard.layers.attention import MultiHeadAttention
from regard.layers.kernels import has_own_kernel, softcap_of
from regard.layers.scaled_dot_product import attention_weights, for_each_query_head
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder

COSINES = "cosines"


@dataclass
class Observed:
    """What the attentions and blocks of a model computed in its last call.

    `tensors` are by the paths of a look. `states` are the input of the first block and the output of each.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    states: list[Tensor] = field(default_factory=list)

    def clear(self) -> None:
        self.tensors.clear()
        self.states.clear()

    def attend(self, name: str, softcap: float | None) -> Callable[..., Tensor]:
        """The plain attention of this name, which is observed."""

        def attend(
            query: Tensor,
            key: Tensor,
            value: Tensor,
            mask: Tensor | None = None,
            position_bias: Tensor | None = None,
            dropout: float = 0.0,
        ) -> Tensor:
            key, value = for_each_query_head(key, query), for_each_query_head(value, query)
            weights = attention_weights(query, key, mask, position_bias, softcap)
            everywhere = torch.ones_like(weights[:, :1], dtype=torch.bool)
            found = {"attention": weights, "query": query, "key": key, "value": value}
            found["mask"] = everywhere if mask is None else mask & everywhere
            if position_bias is not None:
                found["bias"] = position_bias + torch.zeros_like(weights[:1, :1])
            self.tensors.update({f"{part}/{name}": each for part, each in found.items()})
            return weights @ value

        return attend

    def watch(self, blocks: nn.ModuleList, prefix: str) -> None:
        """Observe blocks, whose names begin with `prefix`."""

        def before(_: nn.Module, inputs: tuple[Any, ...]) -> None:
            self.states.append(inputs[0])

        def after(name: str) -> Callable[..., None]:
            def hook(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
                self.states.append(output)
                self.tensors[f"hidden/{name}"] = output

            return hook

        blocks[0].register_forward_pre_hook(before)
        for number, block in enumerate(blocks):
            block.register_forward_hook(after(f"{prefix}blocks.{number}"))


class EncoderLook(nn.Module):
    """Source ids -> what the decoder attends to, the cosines of `compared` ids, and what was observed."""

    def __init__(self, model: EncoderDecoder, observed: Observed) -> None:
        super().__init__()
        self.model, self.observed = model, observed
        self.embedding = EmbeddingCosines(model.encoder.input.embedding.weight)

    def forward(
        self,
        ids: Int64[Tensor, "rows src_len"],
        lengths: Int64[Tensor, " rows"],
        compared: Int64[Tensor, " n"],
    ) -> list[Tensor]:
        self.observed.clear()
        memory = self.model.encode(ids, lengths)
        held = [each for pair in self.model.decoder.read(memory.hidden) for each in pair]
        return [*held, self.embedding(compared), *self.observed.tensors.values()]


class CrossDecoderLook(nn.Module):
    """Target ids, a memory and a cache -> logits of `layers`, the longer cache, cosines, what was observed.

    The logits have a row for each layer and row of ids; layer 0 is the embedding.
    """

    def __init__(self, model: EncoderDecoder, observed: Observed) -> None:
        super().__init__()
        self.model, self.observed = model, observed
        self.embedding = EmbeddingCosines(model.decoder.input.embedding.weight)

    def forward(
        self,
        ids: Int64[Tensor, "rows new_len"],
        lengths: Int64[Tensor, " rows"],
        memory: list[Float[Tensor, "rows kv_heads src_len d_head"]],
        past: list[Float[Tensor, "rows kv_heads past_len d_head"]],
        layers: Int64[Tensor, " layers"],
        compared: Int64[Tensor, " n"],
    ) -> list[Tensor]:
        self.observed.clear()
        mask = self.model.memory_mask(lengths, memory[0].size(2))
        caches = [GrownCache(pair) for pair in pairs(past)]
        self.model.decoder(ids, pairs(memory), mask, caches)
        states = torch.stack(self.observed.states).index_select(0, layers).flatten(0, 1)
        logits = self.model.project(self.model.decoder.norm(states) * self.model.decoder.scale)
        held = [each for cache in caches for each in cache.pair]
        return [logits, *held, self.embedding(compared), *self.observed.tensors.values()]


class DecoderLook(nn.Module):
    """As `CrossDecoderLook`, without a memory."""

    def __init__(self, model: DecoderOnly, observed: Observed) -> None:
        super().__init__()
        self.model, self.observed = model, observed
        self.embedding = EmbeddingCosines(model.input.embedding.weight)

    def forward(
        self,
        ids: Int64[Tensor, "rows new_len"],
        past: list[Float[Tensor, "rows kv_heads past_len d_head"]],
        layers: Int64[Tensor, " layers"],
        compared: Int64[Tensor, " n"],
    ) -> list[Tensor]:
        self.observed.clear()
        caches = [GrownCache(pair) for pair in pairs(past)]
        self.model.states(ids, cache=GrownStack(caches))
        states = torch.stack(self.observed.states).index_select(0, layers).flatten(0, 1)
        logits = self.model.project(self.model.norm(states))
        held = [each for cache in caches for each in cache.pair]
        return [logits, *held, self.embedding(compared), *self.observed.tensors.values()]


class EmbeddingCosines(nn.Module):
    """Ids -> the cosine of each one's embedding with all embeddings; of an embedding of zeros 0."""

    lengths: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = weight
        self.register_buffer("lengths", weight.detach().norm(dim=-1).clamp_min(1e-12))

    def forward(self, ids: Int64[Tensor, " n"]) -> Float[Tensor, "n vocab"]:
        return self.weight[ids] @ self.weight.T / (self.lengths[ids][:, None] * self.lengths)


def save_look_graphs(model: EncoderDecoder | DecoderOnly, folder: Path) -> dict[str, list[str]]:
    """Write the graphs of a model into a folder. Returns the paths of a look that each graph puts out.

    Raises:
        UserError: an attention has a kernel that is not one of regard's.
        RunError: the exporter cannot trace the model.
    """
    refuse_own_kernels(model)
    copied: Any = traceable(model).cpu()
    ids, layers_asked = torch.ones(EXAMPLE_ROWS, EXAMPLE_NEW_LEN, dtype=torch.int64), torch.tensor([0, 1])
    compared = torch.ones(4, dtype=torch.int64)
    if isinstance(copied, DecoderOnly):
        layers, past = len(copied.blocks), example_cache(copied, len(copied.blocks), EXAMPLE_PAST_LEN)
        graph = DecoderLook(copied, observe(copied, {"": copied.blocks}))
        given, axes, names = (ids, past), (_new(), _free(past, "past_len")), ["ids"]
        return {DECODER: _save_decoder(graph, folder, given, axes, names, layers, layers_asked, compared)}
    layers = len(copied.decoder.blocks)
    lengths = torch.tensor([EXAMPLE_SRC_LEN, EXAMPLE_SRC_LEN - 1, 2])
    encoder = EncoderLook(copied, observe(copied, {"encoder.": copied.encoder.blocks}))
    found = _save_observed(
        encoder,
        folder / ENCODER,
        (torch.ones(EXAMPLE_ROWS, EXAMPLE_SRC_LEN, dtype=torch.int64), lengths, compared),
        ({0: "rows", 1: "src_len"}, {0: "rows"}, {0: "compared"}),
        ["ids", "lengths", "compared"],
        [*names_of_layers("memory_", layers), COSINES],
    )
    copied = traceable(model).cpu()
    memory = example_cache(copied, layers, EXAMPLE_SRC_LEN)
    past = example_cache(copied, layers, EXAMPLE_PAST_LEN)
    graph = CrossDecoderLook(copied, observe(copied, {"decoder.": copied.decoder.blocks}))
    given = (ids, lengths, memory, past)
    axes = (_new(), {0: "rows"}, _free(memory, "src_len"), _free(past, "past_len"))
    names = ["ids", "lengths", *names_of_layers("memory_", layers)]
    return {
        ENCODER: found,
        DECODER: _save_decoder(graph, folder, given, axes, names, layers, layers_asked, compared),
    }


def refuse_own_kernels(model: nn.Module) -> None:
    """Raise a UserError if an attention has a kernel that is not one of regard's: its weights are unknown."""
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention) and has_own_kernel(module):
            raise UserError(
                f"a page cannot compute the weights of {name} ({type(module).__name__}): its attention kernel"
                " is not one of regard's",
                "make a page without its model",
            )


def observe(model: nn.Module, blocks: dict[str, nn.ModuleList]) -> Observed:
    """Observe the attentions of a model and these blocks, by the beginning of their names."""
    observed = Observed()
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            module.attend = observed.attend(name, softcap_of(module))
    for prefix, each in blocks.items():
        observed.watch(each, prefix)
    return observed


def _save_decoder(
    graph: nn.Module,
    folder: Path,
    given: tuple[Any, ...],
    axes: tuple[Any, ...],
    names: list[str],
    layers: int,
    asked: Tensor,
    compared: Tensor,
) -> list[str]:
    return _save_observed(
        graph,
        folder / DECODER,
        (*given, asked, compared),
        (*axes, {0: "layers"}, {0: "compared"}),
        [*names, *names_of_layers("past_", layers), "layers", "compared"],
        ["logits", *names_of_layers("", layers), COSINES],
    )


def _save_observed(
    graph: Any,
    path: Path,
    given: tuple[Any, ...],
    axes: tuple[Any, ...],
    inputs: list[str],
    outputs: list[str],
) -> list[str]:
    """Write a graph; the outputs after `outputs` are those that it observes, which are returned."""
    with torch.no_grad():
        graph(*given)
    found = list(graph.observed.tensors)
    save_graph(graph, path, given, axes, input_names=inputs, output_names=[*outputs, *found])
    return found


def _new() -> dict[int, str]:
    return {0: "rows", 1: "new_len"}


def _free(tensors: Sequence[Tensor], length: str) -> list[dict[int, str]]:
    return [{0: "rows", 2: length}] * len(tensors)
