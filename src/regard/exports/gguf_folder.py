"""A decoder-only model as a file of GGUF, which llama.cpp and what is built on it read."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.exports.certificate import BOUNDS, Bounds, Quantization
from regard.exports.certified_export import Target, begins, export_certified, origin
from regard.exports.ctranslate2_layers import norm_epsilon
from regard.exports.gguf_package import gguf, llama_cpp
from regard.exports.gguf_settings import (
    ENGINE,
    architecture,
    known,
    most_positions,
    refuse_other_widths,
)
from regard.exports.gguf_tokenizer import GGUFTokenizer, gguf_tokenizer
from regard.exports.model_weights import Array, ModelWeights
from regard.exports.unapplied_defaults import unapplied_line
from regard.models.config import ModelConfig
from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.model_folder import LoadedModel
from regard.weights.model_name import model_name

FILE = "model.gguf"
TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int8": "Q8_0"}
FILE_TYPES = {"float32": "ALL_F32", "float16": "MOSTLY_F16", "bfloat16": "MOSTLY_BF16", "int8": "MOSTLY_Q8_0"}
EQUAL_IDS = 0.9  # the least share of texts with the same ids; see `gguf_tokenizer.py`
APPLIED = frozenset({"begin"})  # the decoding default that the file has
LENGTH = 2048  # of a context, if the model does not say which


def save(loaded: LoadedModel, folder: Path, quantization: Quantization = "float32") -> None:
    """Write the file of a model into a folder.

    Raises:
        NotExpressible: llama.cpp does not have a setting of the model or of its tokeniser.
    """
    config = known(loaded.config)
    refuse_other_widths(config, quantization)
    tokenizer = gguf_tokenizer(loaded.tokenizers.target, begins=begins(loaded))
    package = gguf()
    llama_cpp()
    writer = package.GGUFWriter(str(folder / FILE), architecture(config))
    _add_settings(writer, config, loaded, quantization)
    _add_tokenizer(writer, tokenizer, loaded)
    with ModelWeights.all_of(loaded.model.state_dict()) as weights:
        for name, array in _tensors(config, weights):
            kind = TYPES[quantization] if array.ndim == 2 and name != "position_embd.weight" else "F32"
            kind = package.GGMLQuantizationType[kind]
            writer.add_tensor(name, package.quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_settings(
    writer: Any, config: DecoderOnlyConfig, loaded: LoadedModel, quantization: Quantization
) -> None:
    writer.add_name(model_name(loaded))
    writer.add_context_length(
        config.max_positions if config.positions == "learned" else config.trained_length or LENGTH
    )
    writer.add_embedding_length(config.d_model)
    writer.add_block_count(config.num_layers)
    writer.add_feed_forward_length(config.d_ff)
    writer.add_head_count(config.num_heads)
    writer.add_head_count_kv(config.num_kv_heads or config.num_heads)
    writer.add_key_length(config.d_head)
    writer.add_value_length(config.d_head)
    if config.norm == "rms":
        writer.add_layer_norm_rms_eps(norm_epsilon(config))
    else:
        writer.add_layer_norm_eps(norm_epsilon(config))
    if config.positions == "rotary":
        writer.add_rope_dimension_count(config.d_head)
        writer.add_rope_freq_base(config.rotary_base)
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(gguf().LlamaFileType[FILE_TYPES[quantization]])
    writer.add_quantization_version(2)


def _add_tokenizer(writer: Any, entries: GGUFTokenizer, loaded: LoadedModel) -> None:
    tokenizer = loaded.tokenizers.target
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(entries.split)
    writer.add_token_list(entries.tokens)
    writer.add_token_types(entries.kinds)
    writer.add_token_merges(entries.merges or [""])  # an empty list has no type
    writer.add_bos_token_id(tokenizer.bos_id)
    writer.add_eos_token_id(tokenizer.eos_id)
    writer.add_pad_token_id(tokenizer.pad_id)
    writer.add_unk_token_id(tokenizer.unk_id)
    writer.add_add_bos_token(begins(loaded))
    writer.add_add_eos_token(False)


def _tensors(config: DecoderOnlyConfig, weights: ModelWeights) -> Iterator[tuple[str, Array]]:
    """The name and the weights of each tensor."""
    yield "token_embd.weight", weights.array("input.embedding.weight")
    output = weights.array("output.weight")
    if not config.tied:
        yield "output.weight", output
    if config.positions == "learned":
        yield "position_embd.weight", weights.array("input.positions.weight")
    yield from _norm("output_norm", config, weights.below("norm"))
    if config.positions == "rotary" and config.rotary_scaling is not None:
        pairs = torch.arange(0, config.d_head, 2, dtype=torch.float64)
        usual = config.rotary_base ** (-pairs / config.d_head)
        scaled = config.rotary_scaling.frequencies(usual, config.rotary_base)
        yield "rope_freqs.weight", (usual / scaled).float().numpy()
    for number in range(config.num_layers):
        block, name = weights.below("blocks", number), f"blk.{number}"
        yield from _norm(f"{name}.attn_norm", config, block.below("around_self_attention", "norm"))
        yield from _norm(f"{name}.ffn_norm", config, block.below("around_feed_forward", "norm"))
        attention, network = block.below("self_attention"), block.below("feed_forward")
        yield from _attention(name, config, attention)
        yield from _linear(f"{name}.attn_output", config, attention.below("output"))
        yield from _network(name, config, network)


def _attention(name: str, config: DecoderOnlyConfig, weights: ModelWeights) -> Iterator[tuple[str, Array]]:
    """Queries, keys and values; those of llama with the features that are rotated together side by side."""
    joint = weights.below("query_key_value")
    kind = architecture(config)
    if kind == "gpt2":
        yield from _linear(f"{name}.attn_qkv", config, joint)
        return
    heads = config.num_heads, *[config.num_kv_heads or config.num_heads] * 2
    for part in ("weight", "bias"):
        if part not in joint:
            continue
        parts = joint.tensor(part).split([count * config.d_head for count in heads])
        for letter, count, each in zip("qkv", heads, parts, strict=True):
            if kind == "llama" and letter != "v":
                halves = each.unflatten(0, (count, 2, config.d_head // 2))
                each = halves.transpose(1, 2).flatten(0, 2)
            yield f"{name}.attn_{letter}.{part}", each.contiguous().numpy().copy()
    if config.qk_norm:
        yield f"{name}.attn_q_norm.weight", weights.array("query_norm.weight")
        yield f"{name}.attn_k_norm.weight", weights.array("key_norm.weight")


def _network(name: str, config: DecoderOnlyConfig, weights: ModelWeights) -> Iterator[tuple[str, Array]]:
    if architecture(config) == "gpt2":
        yield from _linear(f"{name}.ffn_up", config, weights.below("inner"))
    else:
        for part in ("weight", "bias"):
            if f"gate_inner.{part}" in weights:
                gate, inner = torch.chunk(weights.tensor(f"gate_inner.{part}"), 2)
                yield f"{name}.ffn_gate.{part}", gate.numpy().copy()
                yield f"{name}.ffn_up.{part}", inner.numpy().copy()
    yield from _linear(f"{name}.ffn_down", config, weights.below("outer"))


def _linear(name: str, config: DecoderOnlyConfig, weights: ModelWeights) -> Iterator[tuple[str, Array]]:
    """A linear layer; those of gpt2 have a bias, of zeros if the model has none."""
    weight = weights.array("weight")
    yield f"{name}.weight", weight
    if "bias" in weights:
        yield f"{name}.bias", weights.array("bias")
    elif architecture(config) == "gpt2":
        yield f"{name}.bias", np.zeros(len(weight), np.float32)


def _norm(name: str, config: DecoderOnlyConfig, weights: ModelWeights) -> Iterator[tuple[str, Array]]:
    gain = weights.array("weight")
    yield f"{name}.weight", gain
    if architecture(config) == "gpt2":
        yield f"{name}.bias", weights.array("bias") if "bias" in weights else np.zeros_like(gain)


def _card(loaded: LoadedModel, quantization: Quantization) -> str:
    """How to use the file, as Markdown."""
    first = gguf_tokenizer(loaded.tokenizers.target, begins=begins(loaded)).first
    space = (
        "\nA text begins with a space there: regard puts one before every text, llama.cpp does not.\n"
        if first
        else ""
    )
    return f"""# {model_name(loaded)} for llama.cpp

{origin(quantization)}: with keys and values in float32; llama.cpp stores them in float16 unless it is
called with `--cache-type-k f32 --cache-type-v f32`.

```
llama-cli -no-cnv -m {FILE} -p "{first}a text"
```
{space}
Characters that the vocabulary does not have are left out, where regard reads <unk>.
{unapplied_line(loaded, APPLIED, "llama.cpp does")}"""


def _bounds(config: ModelConfig, quantization: Quantization) -> Bounds:
    """The usual bounds, but wider ones for gpt2: llama.cpp reads its GELU from a table in float16."""
    usual = BOUNDS[quantization]
    if quantization != "float32" or known(config).positions != "learned":
        return usual
    return replace(usual, equal_greedy=0.99, equal_beam=0.99, log_prob=0.01, mean_log_prob=1e-3, score=0.01)


def _first(loaded: LoadedModel) -> str:
    return gguf_tokenizer(loaded.tokenizers.target, begins=begins(loaded)).first


GGUF = Target(
    name=ENGINE,
    key="gguf",
    process="regard.exports.gguf_process",
    known=known,
    most_positions=most_positions,  # type: ignore[arg-type] (of the configs that `known` lets pass)
    save=save,
    card=_card,
    applied=lambda loaded: APPLIED,
    equal_ids=EQUAL_IDS,
    reads_unknown=False,
    bounds=_bounds,
    before_text=_first,
)
export_to_gguf = partial(export_certified, GGUF)
