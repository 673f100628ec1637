"""Each setting of a toolkit: its default, and what another value changes; the weights that it then has."""

from dataclasses import replace

import pytest
import torch

from regard.errors import FolderError
from regard.models.build import build_uninitialised
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.names import refuse_gaps
from regard.weights.tensors import model_tensors
from regard.weights.toolkits import eole, fairseq, joeynmt, marian, opennmt, sockeye
from regard.weights.toolkits.settings import Settings
from tests.weights.toolkits.read_configs import (
    EOLE,
    FAIRSEQ,
    FINAL_BIAS,
    JOEYNMT,
    MARIAN,
    OPENNMT,
    SOCKEYE,
    STACK,
    of_eole,
    of_fairseq,
    of_joeynmt,
    of_marian,
    of_opennmt,
    of_sockeye,
)  # fmt: skip


def test_what_is_not_set_has_the_default_of_the_toolkit():
    assert of_eole({}) == EOLE
    assert of_fairseq({}) == FAIRSEQ
    assert of_joeynmt({}) == JOEYNMT
    assert of_opennmt({}) == OPENNMT
    assert of_marian({}) == MARIAN
    assert of_sockeye({}) == SOCKEYE


BIASES = {"add_qkvbias": True, "add_key_bias": True}
ROTARY = {"embeddings": {"position_encoding_type": "Rotary"}}
OF_EOLE = (  # settings of the toolkit, and those of regard that they change
    ({"hidden_size": 16}, {"d_model": 16}),
    ({"heads": 4}, {"num_heads": 4}),
    ({"heads_kv": 2}, {"num_kv_heads": 2}),
    ({"head_dim": 4}, {"head_dim": 4}),
    ({"attn_scaling": 16.0}, {"attention_scale": 0.25}),
    ({"transformer_ff": 24}, {"d_ff": 24}),
    ({"layers": 3}, {"num_encoder_layers": 3, "num_decoder_layers": 3}),
    ({"encoder": {"layers": 3}}, {"num_encoder_layers": 3}),
    ({"mlp_activation_fn": "gated-silu"}, {"activation": "swiglu"}),
    ({"layer_norm": "rms"}, {"norm": "rms"}),
    ({"norm_eps": 1e-4}, {"norm_eps": 1e-4}),
    (BIASES, {"attention_bias": "inputs"}),
    ({"add_ffnbias": True}, {"feed_forward_bias": True}),
    ({"share_embeddings": True}, {"tied": "embeddings"}),
    ({"share_decoder_embeddings": True}, {"tied": "target"}),
    ({"share_embeddings": True, "share_decoder_embeddings": True}, {"tied": "all"}),
    ({"generator_bias": False}, {"output_bias": False}),
    ({"embeddings": {"position_encoding_type": "SinusoidalConcat"}}, {"position_layout": "fairseq"}),
    ({"embeddings": {"normalize": True}}, {}),
    ({"embeddings": {"position_encoding_type": None}}, {"positions": "none", "scaled_embedding": False}),
    ({"embeddings": {"position_encoding_type": None, "normalize": True}}, {"positions": "none"}),
    (
        {"embeddings": {"position_encoding_type": "Learned", "n_positions": 30}},
        {"positions": "learned", "max_positions": 30, "scaled_embedding": False},
    ),
    (
        {"embeddings": {"position_encoding_type": "Learned", "n_positions": 30, "position_shift": 2}},
        {"positions": "learned", "max_positions": 28, "position_offset": 2, "scaled_embedding": False},
    ),
    (ROTARY, {"positions": "rotary", "scaled_embedding": False}),
    (
        {**ROTARY, "rope_config": {"rotary_theta": 500.0, "rotary_interleave": False}},
        {"positions": "rotary", "rotary_base": 500.0, "scaled_embedding": False},
    ),
)  # fmt: skip


def test_each_setting_of_eole_is_one_of_regard():
    for table, changes in OF_EOLE:
        assert of_eole(table) == replace(EOLE, **changes), table
    assert of_eole(BIASES, FINAL_BIAS) == replace(EOLE, attention_bias="all")


SIDES = {"encoder_learned_pos": True, "decoder_learned_pos": True}
OF_FAIRSEQ = (  # settings of the toolkit, and those of regard that they change
    ({"encoder_embed_dim": 16, "decoder_embed_dim": 16}, {"d_model": 16}),
    ({"encoder_attention_heads": 4, "decoder_attention_heads": 4}, {"num_heads": 4}),
    ({"encoder_ffn_embed_dim": 24, "decoder_ffn_embed_dim": 24}, {"d_ff": 24}),
    ({"encoder_layers": 3}, {"num_encoder_layers": 3}),
    ({"decoder_layers": 3}, {"num_decoder_layers": 3}),
    ({"activation_fn": "gelu_fast"}, {"activation": "gelu_tanh"}),
    ({"encoder_normalize_before": True, "decoder_normalize_before": True}, {"norm_position": "pre"}),
    (SIDES, {"positions": "learned"}),
    (
        {**SIDES, "max_source_positions": 30, "max_target_positions": 30},
        {"positions": "learned", "max_positions": 30},
    ),
    ({"max_source_positions": 30}, {"max_positions": 30}),
    ({"no_scale_embedding": True}, {"scaled_embedding": False}),
    ({"layernorm_embedding": True}, {"embedding_norm": True}),
    ({"share_decoder_input_output_embed": True}, {"tied": "target"}),
    ({"share_all_embeddings": True}, {"tied": "all"}),
    ({"share_all_embeddings": True, "share_decoder_input_output_embed": True}, {"tied": "all"}),
    ({"dropout": 0.3}, {"dropout": 0.3}),
    ({"attention_dropout": 0.2}, {"attention_dropout": 0.2}),
    ({"activation_dropout": 0.2}, {"activation_dropout": 0.2}),
    ({"relu_dropout": 0.2}, {"activation_dropout": 0.2}),
    ({"activation_dropout": 0.3, "relu_dropout": 0.2}, {"activation_dropout": 0.3}),
    ({"decoder_input_dim": 512, "decoder_output_dim": "${model.decoder.embed_dim}"}, {}),
)


def test_each_setting_of_fairseq_is_one_of_regard():
    for table, changes in OF_FAIRSEQ:
        assert of_fairseq(table) == replace(FAIRSEQ, **changes), table


OF_JOEYNMT = (  # settings of the toolkit, and those of regard that they change
    ({"tied_embeddings": True}, {}, {"tied": "embeddings"}),
    ({"tied_softmax": True}, {}, {"tied": "target"}),
    ({"tied_embeddings": True, "tied_softmax": True}, {}, {"tied": "all"}),
    ({}, {"layer_norm": "pre"}, {"norm_position": "pre"}),
    ({}, {"activation": "swish"}, {"activation": "silu"}),
    ({}, {"dropout": 0.3}, {"dropout": 0.3, "attention_dropout": 0.3, "activation_dropout": 0.3}),
    ({}, {"embeddings": {"embedding_dim": 8, "scale": True}}, {"scaled_embedding": True}),
)


def test_each_setting_of_joeynmt_is_one_of_regard():
    for table, both, changes in OF_JOEYNMT:
        assert of_joeynmt(table, **both) == replace(JOEYNMT, **changes), (table, both)
    norms = {f"{side}.layer_norm.weight": torch.ones(8) for side in ("encoder", "decoder")}
    assert of_joeynmt({}, norms, layer_norm=None) == replace(JOEYNMT, norm_position="pre")
    with pytest.raises(FolderError, match=r"model\.encoder\.layer_norm is missing"):
        of_joeynmt({}, layer_norm=None)


OF_OPENNMT = (  # settings of the toolkit, and those of regard that they change
    ({"hidden_size": 16}, {"d_model": 16}),
    ({"enc_rnn_size": 16}, {"d_model": 16}),
    ({"enc_rnn_size": 16, "hidden_size": 24}, {"d_model": 24}),
    ({"heads": 4}, {"num_heads": 4}),
    ({"enc_layers": 3}, {"num_encoder_layers": 3}),
    ({"dec_layers": 3}, {"num_decoder_layers": 3}),
    ({"transformer_ff": 24}, {"d_ff": 24}),
    ({"pos_ffn_activation_fn": "gated-gelu"}, {"activation": "geglu"}),
    ({"layer_norm": "rms"}, {"norm": "rms"}),
    ({"norm_eps": 1e-4}, {"norm_eps": 1e-4}),
    ({"position_encoding_type": "SinusoidalConcat"}, {"position_layout": "fairseq"}),
    ({"add_qkvbias": True}, {"attention_bias": "all"}),
    ({"share_embeddings": True}, {"tied": "embeddings"}),
    ({"share_decoder_embeddings": True}, {"tied": "target"}),
    ({"share_embeddings": True, "share_decoder_embeddings": True}, {"tied": "all"}),
)


def test_each_setting_of_opennmt_is_one_of_regard():
    for table, changes in OF_OPENNMT:
        assert of_opennmt(table) == replace(OPENNMT, **changes), table
    bias = {"encoder.transformer.0.feed_forward.w_1.bias": torch.zeros(8)}
    assert of_opennmt({}, bias) == replace(OPENNMT, feed_forward_bias=True)


OF_MARIAN = (  # settings of the toolkit, and those of regard that they change
    ({"dim-emb": 16}, {"d_model": 16}),
    ({"transformer-heads": 4}, {"num_heads": 4}),
    ({"enc-depth": 3}, {"num_encoder_layers": 3}),
    ({"dec-depth": 3}, {"num_decoder_layers": 3}),
    ({"transformer-dim-ffn": 24}, {"d_ff": 24}),
    ({"transformer-dim-ffn": 24, "transformer-decoder-dim-ffn": 24}, {"d_ff": 24}),
    ({"transformer-ffn-activation": "relu"}, {"activation": "relu"}),
    ({"transformer-postprocess-emb": "dn"}, {"embedding_norm": True}),
    (
        {"transformer-postprocess": "dna", "transformer-postprocess-top": "n"},
        {"norm_position": "reordered"},
    ),
    ({"transformer-dropout": 0.3}, {"dropout": 0.3}),
    ({"transformer-dropout-attention": 0.3}, {"attention_dropout": 0.3}),
    ({"transformer-dropout-ffn": 0.3}, {"activation_dropout": 0.3}),
    ({"tied-embeddings-all": True}, {"tied": "all"}),
    ({"tied-embeddings-src": True}, {"tied": "embeddings"}),
    ({"tied-embeddings": True}, {"tied": "target"}),
    ({"tied-embeddings": True, "tied-embeddings-src": True}, {"tied": "all"}),
    ({"input-types": ["sequence", "sequence"]}, {}),
)


def test_each_setting_of_marian_is_one_of_regard():
    for table, changes in OF_MARIAN:
        changes = {**changes, "src_vocab_size": 20}
        assert of_marian(table) == replace(MARIAN, **changes), table
    settings = Settings({}, "model.yml")
    sizes = [(each.src_vocab_size, each.tgt_vocab_size, each.pad_id) for each in (
        marian._config(settings, "none", (30, 19)), marian._config(settings, "none", (12, 19)))]  # fmt: skip
    assert sizes == [(31, 20, 19), (20, 20, 19)]


POST = {"preprocess_sequence": "", "postprocess_sequence": "drn"}
LEARNED = {"positional_embedding_type": "learned", "max_seq_len_target": 30}
OF_SOCKEYE = (  # settings of the toolkit, and those of regard that they change
    ({}, POST, {"norm_position": "post"}),
    ({}, LEARNED, {"positions": "learned"}),
    ({}, {"use_glu": True, "act_type": "swish1"}, {"activation": "swiglu"}),
    ({}, {"act_type": "swish1"}, {"activation": "silu"}),
    ({}, {"dropout_prepost": 0.3}, {"dropout": 0.3}),
    ({}, {"dropout_attention": 0.3}, {"attention_dropout": 0.3}),
    ({}, {"dropout_act": 0.3}, {"activation_dropout": 0.3}),
    ({"weight_tying_type": "none"}, {}, {"tied": "none"}),
    ({"weight_tying_type": "src_trg"}, {}, {"tied": "embeddings"}),
    ({"weight_tying_type": "trg_softmax"}, {}, {"tied": "target"}),
    ({"config_encoder": {**STACK, "num_layers": 4}}, {}, {"num_encoder_layers": 4}),
)


def test_each_setting_of_sockeye_is_one_of_regard():
    for table, both, changes in OF_SOCKEYE:
        assert of_sockeye(table, **both) == replace(SOCKEYE, **changes), (table, both)


SMALL = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_encoder_layers": 2, "num_decoder_layers": 1}
LAYOUTS = {  # by the module of the toolkit: a config, and the variants that its checkpoints may have
    eole: (
        EOLE,
        (
            {"norm": "rms"}, {"output_bias": False}, {"feed_forward_bias": True}, {"activation": "swiglu"},
            {"activation": "geglu", "feed_forward_bias": True}, {"attention_bias": "all"},
            {"attention_bias": "inputs"}, {"positions": "learned", "max_positions": 9},
        ),
    ),
    fairseq: (FAIRSEQ, ({"norm_position": "pre"}, {"embedding_norm": True}, {"positions": "learned"})),
    joeynmt: (JOEYNMT, ({"norm_position": "pre"},)),
    opennmt: (
        OPENNMT,
        (
            {"norm": "rms"}, {"attention_bias": "all"}, {"feed_forward_bias": True}, {"activation": "swiglu"},
            {"activation": "geglu", "feed_forward_bias": True},
        ),
    ),
    marian: (MARIAN, ({"norm_position": "reordered"}, {"embedding_norm": True})),
    sockeye: (SOCKEYE, ({"norm_position": "post"}, {"positions": "learned"}, {"activation": "swiglu"})),
}  # fmt: skip


@pytest.mark.parametrize(
    ("module", "config"),
    [
        (module, replace(config, **SMALL, **changes))
        for module, (config, variants) in LAYOUTS.items()
        for changes in ({}, *variants, *({"tied": tied} for tied in ("all", "target", "embeddings", "none")))
        if module is not fairseq or changes.get("tied") != "embeddings"
    ],
    ids=lambda each: each.__name__.rpartition(".")[2] if not isinstance(each, EncoderDecoderConfig) else "",
)
def test_a_table_has_each_weight_of_the_model_once(module, config):
    """And each weight of the file is used once."""
    table = module._table(config)
    refuse_gaps(
        table, {name: each.shape for name, each in model_tensors(build_uninitialised(config)).items()}
    )
    theirs = [name for entry in table for name in entry.hf]
    assert len(set(theirs)) == len(theirs)
