"""regard's models -> Hugging Face's: Marian (post-norm) or Pegasus (pre-norm), and GPT-2.

Marian and Pegasus differ only in the place of the norm. Both have a table of sinusoids, which is replaced by
regard's: theirs has all sines before all cosines.
"""

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.convert.names import Weights, block, refuse, renamed, unstacked
from regard.layers.positions import sinusoids

MAX_POSITIONS = 1024


def pair_model(config: Any, weights: Weights | None, *, like: bool = False) -> nn.Module:
    """Marian or Pegasus of this shape, with these weights or random ones; with `like`, of these sizes only.

    Raises:
        Unfit: neither supports this model.
    """
    if not like:
        refuse(
            config, tied=("all",), norm=("layer",), norm_position=("post", "pre"),
            positions=("sinusoidal",), activation=("relu", "gelu", "silu"), bias=(True,),
            num_kv_heads=(None, config.num_heads), qk_norm=(False,),
        )  # fmt: skip
    import transformers

    pre = config.norm_position != "post"
    settings = transformers.PegasusConfig if pre else transformers.MarianConfig
    kind = transformers.PegasusForConditionalGeneration if pre else transformers.MarianMTModel
    model = kind(settings(**_pair_settings(config)))
    if weights is not None:
        _load(model, pair_weights(config, weights))
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.data.copy_(sinusoids(0, MAX_POSITIONS, config.d_model))
    return model


def _pair_settings(config: Any) -> dict[str, Any]:
    return {
        "vocab_size": config.tgt_vocab_size,
        "d_model": config.d_model,
        "encoder_layers": config.num_encoder_layers,
        "decoder_layers": config.num_decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": "silu" if config.activation == "swiglu" else config.activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "max_position_embeddings": MAX_POSITIONS,
        "scale_embedding": True,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": None,
    }


def pair_weights(config: Any, weights: Weights) -> dict[str, Tensor]:
    """The weights of Marian or Pegasus under their names."""
    embedding = weights["encoder.input.embedding.weight"]
    found = {"model.shared.weight": embedding, "lm_head.weight": embedding}
    for side in ("encoder", "decoder"):
        found[f"model.{side}.embed_tokens.weight"] = embedding
        for number in range(getattr(config, f"num_{side}_layers")):
            own = block(weights, f"{side}.blocks.{number}")
            layer = _pair_layer(own)
            found |= {f"model.{side}.layers.{number}.{name}": tensor for name, tensor in layer.items()}
        for kind in ("weight", "bias"):
            if f"{side}.norm.{kind}" in weights:
                found[f"model.{side}.layer_norm.{kind}"] = weights[f"{side}.norm.{kind}"]
    return found


PAIR_NAMES = {
    "self.out": "self_attn.out_proj",
    "norm.self": "self_attn_layer_norm",
    "cross.q": "encoder_attn.q_proj",
    "cross.k": "encoder_attn.k_proj",
    "cross.v": "encoder_attn.v_proj",
    "cross.out": "encoder_attn.out_proj",
    "norm.cross": "encoder_attn_layer_norm",
    "ff.in": "fc1",
    "ff.out": "fc2",
    "norm.ff": "final_layer_norm",
}


def _pair_layer(own: Weights) -> dict[str, Tensor]:
    parts = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    return renamed(own, PAIR_NAMES) | unstacked(own, parts)


def text_model(config: Any, weights: Weights | None) -> nn.Module:
    """GPT-2 of this shape. It has all biases; those that regard's model does not have are zero.

    Raises:
        Unfit: GPT-2 does not support this model.
    """
    refuse(
        config, tied=(True,), norm=("layer",), norm_position=("pre",), positions=("learned",),
        activation=("gelu", "relu", "silu"), num_kv_heads=(None, config.num_heads), qk_norm=(False,),
        window=(None,), scaled_embedding=(False,),
    )  # fmt: skip
    import transformers

    settings = transformers.GPT2Config(
        vocab_size=config.vocab_size,
        n_positions=config.max_positions,
        n_embd=config.d_model,
        n_layer=config.num_layers,
        n_head=config.num_heads,
        n_inner=config.d_ff,
        activation_function=config.activation,
        resid_pdrop=config.dropout,
        embd_pdrop=config.dropout,
        attn_pdrop=config.attention_dropout,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
    )
    model = transformers.GPT2LMHeadModel(settings)
    if weights is not None:
        _load(model, text_weights(config, weights))
    return model


TEXT_NAMES = {
    "self.in": "attn.c_attn",
    "self.out": "attn.c_proj",
    "ff.in": "mlp.c_fc",
    "ff.out": "mlp.c_proj",
    "norm.self": "ln_1",
    "norm.ff": "ln_2",
}


def text_weights(config: Any, weights: Weights) -> dict[str, Tensor]:
    """The weights of GPT-2 under its names; its matrices are transposed."""
    embedding = weights["input.embedding.weight"]
    found = {
        "transformer.wte.weight": embedding,
        "lm_head.weight": embedding,
        "transformer.wpe.weight": weights["input.positions.weight"],
        "transformer.ln_f.weight": weights["norm.weight"],
        "transformer.ln_f.bias": weights.get("norm.bias", torch.zeros(config.d_model)),
    }
    for number in range(config.num_layers):
        own = block(weights, f"blocks.{number}")
        for ours, theirs in TEXT_NAMES.items():
            weight = own[f"{ours}.weight"]
            found[f"transformer.h.{number}.{theirs}.weight"] = weight.T if weight.ndim > 1 else weight
            bias = own.get(f"{ours}.bias", torch.zeros(weight.size(0)))
            found[f"transformer.h.{number}.{theirs}.bias"] = bias
    return found


def _load(model: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load the weights; only tables and constants that regard has no parameters for keep their values."""
    missing, unexpected = model.load_state_dict(weights, strict=False)
    odd = [name for name in missing if not name.endswith(("embed_positions.weight", "final_logits_bias"))]
    assert not odd, odd
    assert not unexpected, unexpected
