"""Configs as each toolkit's settings give them, and the config of its defaults."""

from collections.abc import Mapping

import torch

from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.toolkits import eole, fairseq, joeynmt, marian, opennmt, sockeye
from regard.weights.toolkits.joeynmt_vocabulary import SpecialSymbols
from regard.weights.toolkits.settings import Settings

SIZES = {"src_vocab_size": 20, "tgt_vocab_size": 20}
NONE: Mapping[str, torch.Tensor] = {}
FINAL_BIAS = {
    f"{side}.transformer_layers.0.self_attn.final_linear.bias": torch.zeros(8) for side in eole.SIDES
}
SYMBOLS = SpecialSymbols(unk=0, pad=1, bos=2, eos=3, names=("<unk>", "<pad>", "<s>", "</s>"))


def of_eole(table, tensors: Mapping = NONE):
    settings = Settings({"encoder": {}, "decoder": {}, **table}, "config.json", "model.")
    config, in_pairs = eole._config(settings, tensors, 20, 20, 1)
    assert in_pairs == (
        config.positions == "rotary" and table.get("rope_config", {}).get("rotary_interleave", True)
    )
    return config


def of_fairseq(table):
    settings = Settings(table, "args")
    config = fairseq._config(settings, 20, 20)
    settings.finish()
    return config


def of_joeynmt(table, tensors: Mapping = NONE, **both):
    side = {
        "type": "transformer", "hidden_size": 8, "num_heads": 2, "ff_size": 12, "num_layers": 3,
        "embeddings": {"embedding_dim": 8}, "layer_norm": "post", **both,
    }  # fmt: skip
    settings = Settings({"encoder": side, "decoder": side, **table}, "config.yaml", "model.")
    return joeynmt._config(settings, tensors, SYMBOLS, 20, 20)


def of_opennmt(table, tensors: Mapping = NONE):
    settings = Settings(table, "opt")
    config = opennmt._config(settings, tensors, 20, 20, 1)
    settings.finish()
    return config


def of_marian(table):
    settings = Settings(table, "model.yml")
    return marian._config(settings, marian._tied(settings), (19, 19))


STACK = {
    "positional_embedding_type": "fixed", "max_seq_len_source": 30, "max_seq_len_target": 40,
    "preprocess_sequence": "n", "postprocess_sequence": "dr", "model_size": 8, "attention_heads": 2,
    "feed_forward_num_hidden": 12, "num_layers": 3, "act_type": "relu",
}  # fmt: skip


def of_sockeye(table, **both):
    side = {**STACK, **both}
    embed = {"num_embed": 8, "vocab_size": 20}
    settings = Settings(
        {
            "vocab_source_size": 20, "vocab_target_size": 20, "config_encoder": side, "config_decoder": side,
            "config_embed_source": embed, "config_embed_target": embed, **table,
        },
        "config",
    )  # fmt: skip
    config = sockeye._config(settings)
    settings.finish()
    return config


EOLE = EncoderDecoderConfig(
    **SIZES,
    num_encoder_layers=2,
    num_decoder_layers=2,
    norm_eps=1e-5,
    norm_position="pre",
    attention_bias="none",
    feed_forward_bias=False,
    tied="none",
    output_bias=True,
    source_end=False,
    pad_id=1,
)
FAIRSEQ = EncoderDecoderConfig(**SIZES, position_layout="fairseq", position_offset=2, tied="none", pad_id=1)
JOEYNMT = EncoderDecoderConfig(
    **SIZES,
    d_model=8,
    num_heads=2,
    d_ff=12,
    num_encoder_layers=3,
    num_decoder_layers=3,
    norm_eps=1e-6,
    tied="none",
    scaled_embedding=False,
    attention_dropout=0.1,
    activation_dropout=0.1,
    pad_id=1,
)
OPENNMT = EncoderDecoderConfig(
    **SIZES,
    num_encoder_layers=2,
    num_decoder_layers=2,
    norm_eps=1e-6,
    norm_position="pre",
    attention_bias="none",
    feed_forward_bias=False,
    tied="none",
    output_bias=True,
    source_end=False,
    pad_id=1,
)
MARIAN = EncoderDecoderConfig(
    **SIZES,
    num_encoder_layers=1,
    num_decoder_layers=1,
    activation="silu",
    position_layout="fairseq",
    norm_eps=1e-6,
    tied="none",
    dropout=0.0,
    output_bias=True,
    pad_id=19,
)
SOCKEYE = EncoderDecoderConfig(
    **SIZES,
    d_model=8,
    num_heads=2,
    d_ff=12,
    num_encoder_layers=3,
    num_decoder_layers=3,
    norm_eps=1e-6,
    norm_position="pre",
    position_layout="split",
    max_positions=30,
    attention_bias="none",
    feed_forward_bias=True,
    output_bias=True,
    dropout=0.0,
)
