"""regard's models -> folders that CTranslate2 reads: an encoder-decoder, and a decoder like GPT-2."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.common.unfit import Unfit
from benchmarks.convert.names import Weights, block, refuse, stacked
from regard.layers.positions import sinusoids

MAX_POSITIONS = 1024
EPSILON = 1e-5  # of regard's layer norms


def write_pair_model(config: Any, weights: Weights, tokens: list[str], folder: Path) -> Path:
    """Write the converted encoder-decoder; `tokens` are the pieces of the joint vocabulary by their ids.

    Raises:
        Unfit: CTranslate2 does not support this model.
    """
    refuse(
        config, norm=("layer",), norm_position=("post", "pre"), positions=("sinusoidal", "learned"),
        activation=("relu", "gelu", "silu"), num_kv_heads=(None, config.num_heads), qk_norm=(False,),
    )  # fmt: skip
    from ctranslate2 import specs

    spec = specs.TransformerSpec.from_config(
        (config.num_encoder_layers, config.num_decoder_layers),
        config.num_heads,
        pre_norm=config.norm_position == "pre",
        activation=_activation(config),
    )
    for side, part in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        embedding = weights[f"{side}.input.embedding.weight"]
        (part.embeddings[0] if side == "encoder" else part.embeddings).weight = _array(embedding)
        part.position_encodings.encodings = _array(_positions(config, weights, f"{side}.input."))
        for number, layer in enumerate(part.layer):
            _fill_layer(layer, block(weights, f"{side}.blocks.{number}"))
        if config.norm_position == "pre":
            _fill_norm(part.layer_norm, weights, f"{side}.norm")
    spec.decoder.projection.weight = _array(weights["output.weight"])
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    _name_marks(spec.config)
    spec.config.add_source_eos = True
    spec.config.decoder_start_token = "<s>"
    return _saved(spec, folder)


def write_text_model(config: Any, weights: Weights, tokens: list[str], folder: Path) -> Path:
    """The same for a decoder without a source.

    Raises:
        Unfit: CTranslate2 does not support this model.
    """
    refuse(
        config, norm=("layer",), norm_position=("post", "pre"), positions=("learned",),
        activation=("relu", "gelu", "silu"), num_kv_heads=(None, config.num_heads), qk_norm=(False,),
        window=(None,),
    )  # fmt: skip
    from ctranslate2 import specs

    spec = specs.TransformerDecoderModelSpec.from_config(
        config.num_layers,
        config.num_heads,
        pre_norm=config.norm_position == "pre",
        activation=_activation(config),
    )
    spec.decoder.scale_embeddings = config.scaled_embedding
    spec.decoder.embeddings.weight = _array(weights["input.embedding.weight"])
    spec.decoder.position_encodings.encodings = _array(_positions(config, weights, "input."))
    for number, layer in enumerate(spec.decoder.layer):
        _fill_layer(layer, block(weights, f"blocks.{number}"))
    if config.norm_position == "pre":
        _fill_norm(spec.decoder.layer_norm, weights, "norm")
    spec.decoder.projection.weight = _array(weights["output.weight"])
    spec.register_vocabulary(tokens)
    _name_marks(spec.config)
    return _saved(spec, folder)


def _activation(config: Any) -> Any:
    from ctranslate2.specs import common_spec

    known = common_spec.Activation
    return {"relu": known.RELU, "gelu": known.GELU, "silu": known.SWISH}[config.activation]


def _positions(config: Any, weights: Weights, prefix: str) -> Tensor:
    if config.positions == "learned":
        return weights[f"{prefix}positions.weight"]
    return sinusoids(0, MAX_POSITIONS, config.d_model)


def _fill_layer(layer: Any, own: dict[str, Tensor]) -> None:
    _fill_linear(layer.self_attention.linear[0], own, "self.in")
    _fill_linear(layer.self_attention.linear[1], own, "self.out")
    _fill_norm(layer.self_attention.layer_norm, own, "norm.self")
    _fill_linear(layer.ffn.linear_0, own, "ff.in")
    _fill_linear(layer.ffn.linear_1, own, "ff.out")
    _fill_norm(layer.ffn.layer_norm, own, "norm.ff")
    if "cross.q.weight" in own:
        _fill_linear(layer.attention.linear[0], own, "cross.q")
        _fill_linear(layer.attention.linear[1], own, "cross.k", "cross.v")
        _fill_linear(layer.attention.linear[2], own, "cross.out")
        _fill_norm(layer.attention.layer_norm, own, "norm.cross")


def _fill_linear(spec: Any, own: dict[str, Tensor], *names: str) -> None:
    spec.weight = _array(stacked(own, names, "weight"))
    if f"{names[0]}.bias" in own:
        spec.bias = _array(stacked(own, names, "bias"))


def _fill_norm(spec: Any, weights: Weights, name: str) -> None:
    gain = weights[f"{name}.weight"]
    spec.gamma, spec.beta = _array(gain), _array(weights.get(f"{name}.bias", torch.zeros_like(gain)))


def _name_marks(config: Any) -> None:
    config.unk_token, config.bos_token, config.eos_token = "<unk>", "<s>", "</s>"
    config.layer_norm_epsilon = EPSILON


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().contiguous().numpy()


def _saved(spec: Any, folder: Path) -> Path:
    """Check and write the model; replaces an older one."""
    try:
        spec.validate()
    except Exception as error:
        raise Unfit(f"CTranslate2 refuses the converted model: {error}") from error
    spec.optimize(quantization=None)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    spec.save(str(folder))
    return folder
