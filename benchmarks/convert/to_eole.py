"""regard's encoder-decoder -> eole's, which is pre-norm."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyonmttok
from eole.config.models import TransformerModelConfig
from eole.models.model import EncoderDecoderModel
from torch import Tensor, nn

from benchmarks.convert.names import Weights, block, refuse, renamed, unstacked
from regard.layers.positions import sinusoids

MAX_POSITIONS = 5000  # of eole's table of sinusoids
SPECIAL_TOKENS = {"pad_token": 0, "unk_token": 1, "bos_token": 2, "eos_token": 3}  # by their ids in regard


def pair_model(
    config: Any, weights: Weights | None, vocabularies: Any, *, like: bool = False
) -> EncoderDecoderModel:
    """eole's model of this shape, with these weights or random ones; with `like`, of these sizes only.

    Raises:
        Unfit: eole does not support this model.
    """
    if not like:
        refuse(
            config, tied=("all",), norm=("layer",), norm_position=("pre",), positions=("sinusoidal",),
            activation=("relu", "gelu", "silu"), bias=(True,), num_kv_heads=(None, config.num_heads),
            qk_norm=(False,),
        )  # fmt: skip
    running = _running(config)
    model = EncoderDecoderModel.build(settings_of(config), vocabularies, running)
    if weights is None:
        model.init_weights(running)
    else:
        missing, unexpected = model.load_state_dict(pair_weights(config, weights), strict=False)
        odd = [name for name in missing if not name.endswith((".pe.pe", ".layer_scalar"))]
        assert not odd, odd
        assert not unexpected, unexpected
    for side in (model.src_emb, model.tgt_emb):
        side.pe.pe.copy_(sinusoids(0, MAX_POSITIONS, config.d_model).unsqueeze(1))
    _drop_inside(model, config.activation_dropout)
    return model


def vocabularies_of(pieces: Sequence[str]) -> dict[str, Any]:
    """A joint vocabulary in eole's form: pieces by their ids, and the special tokens."""
    vocabulary = pyonmttok.Vocab()
    for piece in pieces:
        vocabulary.add_token(piece)
    return {
        "src": vocabulary,
        "tgt": vocabulary,
        "specials": {name: pieces[number] for name, number in SPECIAL_TOKENS.items()},
        "decoder_start_token": pieces[SPECIAL_TOKENS["bos_token"]],
    }


def pair_weights(config: Any, weights: Weights) -> dict[str, Tensor]:
    """The weights of eole's model under its names."""
    embedding = weights["encoder.input.embedding.weight"]
    found = {
        f"{name}.weight": embedding for name in ("src_emb.embeddings", "tgt_emb.embeddings", "generator")
    }
    for side in ("encoder", "decoder"):
        for number in range(getattr(config, f"num_{side}_layers")):
            layer = _layer(block(weights, f"{side}.blocks.{number}"))
            found |= {f"{side}.transformer_layers.{number}.{name}": each for name, each in layer.items()}
        for kind in ("weight", "bias"):
            found[f"{side}.layer_norm.{kind}"] = weights[f"{side}.norm.{kind}"]
    return found


NAMES = {
    "self.out": "self_attn.final_linear",
    "norm.self": "input_layernorm",
    "cross.q": "context_attn.linear_query",
    "cross.k": "context_attn.linear_keys",
    "cross.v": "context_attn.linear_values",
    "cross.out": "context_attn.final_linear",
    "norm.cross": "precontext_layernorm",
    "ff.in": "mlp.gate_up_proj",
    "ff.out": "mlp.down_proj",
    "norm.ff": "post_attention_layernorm",
}


def _layer(own: Weights) -> dict[str, Tensor]:
    parts = ("self_attn.linear_query", "self_attn.linear_keys", "self_attn.linear_values")
    return renamed(own, NAMES) | unstacked(own, parts)


def settings_of(config: Any) -> TransformerModelConfig:
    """The model's settings in eole's form, which its Translator needs in addition to the model."""
    positions = {"position_encoding_type": "SinusoidalInterleaved"}
    return TransformerModelConfig(
        architecture="transformer",
        encoder={"encoder_type": "transformer", "layers": config.num_encoder_layers},
        decoder={"decoder_type": "transformer", "layers": config.num_decoder_layers},
        hidden_size=config.d_model,
        heads=config.num_heads,
        transformer_ff=config.d_ff,
        mlp_activation_fn="gated-silu" if config.activation == "swiglu" else config.activation,
        embeddings={"word_vec_size": config.d_model, **positions},
        share_embeddings=True,
        share_decoder_embeddings=True,
        generator_bias=False,
        add_qkvbias=True,
        add_final_linear_bias=True,
        add_ffnbias=True,
        **positions,
    )


def _running(config: Any) -> SimpleNamespace:
    """The training settings that eole's modules read; its complete class would require data as well."""
    return SimpleNamespace(
        dropout=[config.dropout],
        attention_dropout=[config.attention_dropout],
        self_attn_backend="pytorch",
        param_init_method="xavier_uniform",
        parallel_gpu=1,
        use_ckpting=[],
        quant_layers=[],
        quant_type="",
        lora_layers=[],
        lora_embedding=False,
    )


def _drop_inside(model: nn.Module, rate: float) -> None:
    """Set the dropout rate inside the feed-forward network; eole has one rate for all places."""
    for side in (model.encoder, model.decoder):
        for layer in side.transformer_layers:
            layer.mlp.dropout_1.p = rate
