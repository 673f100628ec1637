"""A setting of a toolkit that regard does not have is refused by its name, and so is a contradiction."""

import pytest

from regard.errors import FolderError
from regard.weights.toolkits import eole, fairseq, fairseq_settings, marian, opennmt
from tests.weights.toolkits.read_configs import (
    SOCKEYE,
    STACK,
    of_eole,
    of_fairseq,
    of_joeynmt,
    of_marian,
    of_opennmt,
    of_sockeye,
)  # fmt: skip


def in_(*path):
    """A table in tables of these names, of a setting that is given later."""

    def made(name, value):
        table = {name: value}
        for each in reversed(path):
            table = {each: table}
        return table

    return made


def both(name, value):
    return {"encoder": {name: value}, "decoder": {name: value}}


def rope(name, value):
    return {"embeddings": {"position_encoding_type": "Rotary"}, "rope_config": {name: value}}


ROTARY_ZEROS = ("rotary_dim", "interleave_local", "tmax_index", "rotary_dim_global", "partial_rotary_factor")
MARIAN_FALSE = (
    "right-left", "ulr", "transformer-no-projection", "transformer-pool", "transformer-no-bias",
    "transformer-no-affine", "transformer-train-position-embeddings", "transformer-train-positions",
    "transformer-disable-position-embeddings", "transformer-alibi-shift", "transformer-alibi-trainable",
    "char-s2s",
)  # fmt: skip
FIXED = [  # of a toolkit, in such a table, these settings -> the values that are taken, and one that is not
    (of_eole, in_(), ("architecture",), ("transformer", "custom"), "transformer_lm"),
    (of_eole, in_(), ("generator_function",), ("softmax",), "sparsemax"),
    (of_eole, in_(), ("add_estimator",), (False, None), True),
    (of_eole, both, eole.NEVER_TRUE, (False, None), True),
    (of_eole, both, eole.ZERO, (0, None), 1),
    (of_eole, both, eole.NEVER_SET, (None,), 4),
    (of_eole, in_("encoder"), ("encoder_layer_style",), ("standard",), "postnorm"),
    (of_eole, in_("encoder"), ("final_encoder_layer_norm",), (True,), False),
    (of_eole, in_("encoder"), ("encoder_type",), ("transformer",), "brnn"),
    (of_eole, in_("encoder"), ("src_word_vec_size",), (512, -1), 500),
    (of_eole, in_("decoder"), ("tgt_word_vec_size",), (512, -1), 500),
    (of_eole, in_("decoder"), ("decoder_type",), ("transformer",), "rnn"),
    (of_eole, in_("decoder"), ("LM_type",), ("causal",), "prefix"),
    (of_eole, both, ("add_key_bias",), (False, None), True),
    (of_eole, in_("embeddings"), ("embedding_type",), ("standard",), "factored"),
    (of_eole, in_("embeddings"), ("embedding_layer_norm",), (False,), True),
    (of_eole, in_("embeddings"), ("token_type_vocab_size",), (0,), 2),
    (of_eole, rope, ROTARY_ZEROS, (0,), 1),
    (of_eole, rope, ("scaling_type", "alpha", "xdrope_section"), (None,), 2),
    (of_eole, rope, ("multidimensional_rope",), (False,), True),
    (of_fairseq, in_(), ("arch",), fairseq.ARCHITECTURES, "fconv"),
    (of_fairseq, in_(), ("task",), ("translation",), "multilingual"),
    (of_fairseq, in_(), fairseq.NEVER_TRUE, (False, None), True),
    (of_fairseq, in_(), fairseq.NEVER_SET, (None,), 4),
    (of_fairseq, in_(), ("encoder_langtok", "decoder_langtok", "langs", "lang_pairs"), ([], ""), "de"),
    (of_fairseq, in_(), ("pad",), (1,), 0),
    (of_fairseq, in_(), ("eos",), (2,), 0),
    (of_fairseq, in_(), ("unk",), (3,), 0),
    (of_fairseq, in_(), ("base_layers", "quant_noise_pq"), (0,), 1),
    (of_fairseq, in_(), ("decoder_input_dim", "decoder_output_dim"), (512,), 500),
    (of_opennmt, in_(), ("encoder_type", "decoder_type"), ("transformer",), "brnn"),
    (of_opennmt, in_(), ("model_task",), ("seq2seq",), "lm"),
    (of_opennmt, in_(), ("model_type",), ("text",), "audio"),
    (of_opennmt, in_(), ("generator_function",), ("softmax",), "sparsemax"),
    (of_opennmt, in_(), ("max_relative_positions",), (0,), -1),
    (of_opennmt, in_(), opennmt.NEVER_TRUE, (False, None), True),
    (of_opennmt, in_(), opennmt.ZERO, (0, None), 1),
    (of_opennmt, in_(), opennmt.NO_LIST, ([], "", None), ["x"]),
    (of_opennmt, in_(), ("position_encoding",), (True, None), False),
    (of_marian, in_(), ("type",), ("transformer",), "s2s"),
    (of_marian, in_(), ("transformer-decoder-autoreg",), ("self-attention",), "rnn"),
    (of_marian, in_(), MARIAN_FALSE, (False, None), True),
    (of_marian, in_(), ("transformer-attention-mask",), ("default", ""), "alibi"),
    (of_marian, in_(), ("transformer-ffn-depth",), (2,), 3),
    (of_marian, in_(), ("transformer-decoder-ffn-depth",), (0, 2), 3),
    (of_marian, in_(), ("transformer-decoder-dim-ffn",), (0, 2048), 24),
    (of_marian, in_(), ("lemma-dim-emb", "factors-dim-emb", "ulr-dim-emb"), (0,), 1),
    (
        of_marian,
        in_(),
        ("lemma-dependency", "special-vocab", "transformer-tied-layers", "output-approx-knn"),
        ("", []),
        [1],
    ),
    (of_marian, in_(), ("factors-combine",), ("sum",), "concat"),
    (of_marian, in_(), ("input-types",), (["sequence"],), ["class"]),
    (of_marian, in_(), ("transformer-preprocess",), ("", "d"), "n"),
    (of_marian, in_(), ("transformer-postprocess",), ("dan", "an"), "n"),
    (of_marian, in_(), ("transformer-postprocess-top",), ("", "d"), "n"),
    (of_marian, in_(), ("transformer-postprocess-emb",), ("", "d"), "a"),
    (of_sockeye, in_(), ("lhuc",), (False,), True),
    (of_sockeye, in_(), ("neural_vocab_selection",), (None,), "logit_max"),
]
UNKNOWN = [  # a toolkit's settings, in which one has a name that regard does not know
    (of_eole, in_()),
    (of_eole, in_("embeddings")),
    (of_eole, both),
    (of_eole, rope),
    (of_fairseq, in_()),
    (of_opennmt, in_()),
    (of_marian, in_()),
    (of_joeynmt, in_()),
    (of_sockeye, in_()),
    (of_sockeye, in_("config_embed_source")),
    (of_sockeye, in_("config_embed_target")),
]
EMBEDDINGS_OF_EOLE = (
    "freeze_word_vecs_enc", "freeze_word_vecs_dec", "position_encoding", "word_vec_size", "src_word_vec_size",
    "tgt_word_vec_size", "n_positions",
)  # fmt: skip
HARMLESS = [  # settings that change nothing, whatever their value
    (of_eole, in_(), eole.UNUSED_IN_MODEL),
    (of_eole, both, eole.UNUSED_IN_STACKS),
    (of_eole, rope, eole.UNUSED_OF_ROTARY),
    (of_eole, in_("embeddings"), EMBEDDINGS_OF_EOLE),
    (of_fairseq, in_(), (*fairseq_settings.OF_TRAINING, *fairseq_settings.MODEL_UNUSED)),
    (of_opennmt, in_(), {*opennmt.OF_OTHERS, *opennmt.OF_TRANSFORMS, "src_prefix"} - {"enc_rnn_size"}),
    (of_opennmt, in_(), (*opennmt.OF_TRAINING, "add_ffnbias", "src_subword_nbest", "tgt_suffix")),
    (
        of_marian,
        in_(),
        {*marian.WITHOUT_EFFECT} - {f"transformer-dropout{part}" for part in ("", "-attention", "-ffn")},
    ),
    (of_sockeye, in_(), ("neural_vocab_selection_block_loss", "config_length_task", "dtype")),
]


@pytest.mark.parametrize(
    ("read", "table", "name", "taken", "refused"),
    [(read, table, name, *values) for read, table, names, *values in FIXED for name in names],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_setting_with_one_meaning_takes_no_other_value(read, table, name, taken, refused):
    for value in taken:
        read(table(name, value))
    with pytest.raises(FolderError, match=name) as caught:
        read(table(name, refused))
    assert caught.value.hint


@pytest.mark.parametrize(("read", "table"), UNKNOWN)
def test_a_setting_that_regard_does_not_know_is_refused(read, table):
    with pytest.raises(FolderError, match="a_new_setting") as caught:
        read(table("a_new_setting", 1))
    assert caught.value.hint


@pytest.mark.parametrize("read", [of_joeynmt, of_sockeye])
def test_so_is_one_of_a_stack(read):
    with pytest.raises(FolderError, match="a_new_setting"):
        read({}, a_new_setting=1)
    if read is of_joeynmt:
        with pytest.raises(FolderError, match="a_new_setting"):
            read({}, embeddings={"embedding_dim": 8, "a_new_setting": 1})


@pytest.mark.parametrize("value", [0, True, "x"])
@pytest.mark.parametrize(("read", "table", "names"), HARMLESS, ids=lambda each: "")
def test_a_setting_that_changes_nothing_takes_every_value(read, table, names, value):
    plain = read({"embeddings": {"position_encoding_type": "Rotary"}} if table is rope else {})
    for name in names:
        assert read(table(name, value)) == plain, name


@pytest.mark.parametrize("name", ["decoder_type", "use_lhuc", "block_prepended_cross_attention"])
def test_a_stack_of_sockeye_is_a_plain_transformer(name):
    taken, refused = ("transformer", "ssru") if name == "decoder_type" else (False, True)
    assert of_sockeye({}, **{name: taken}) == SOCKEYE
    with pytest.raises(FolderError, match=name):
        of_sockeye({}, **{name: refused})


@pytest.mark.parametrize(
    ("read", "table", "named"),
    [
        (of_eole, {"decoder": {"heads": 4}}, "num_heads = 8 in the encoder, 4 in the decoder"),
        (of_eole, {"encoder": {"norm_eps": 1e-4}}, r"norm_eps = 0\.0001 in the encoder, 1e-05 in the dec"),
        (
            of_eole,
            {"embeddings": {"position_encoding_type": "Learned", "n_positions": 9, "normalize": True}},
            "normalize",
        ),
        (of_fairseq, {"decoder_embed_dim": 16}, "encoder_embed_dim = 512, decoder_embed_dim = 16"),
        (
            of_fairseq,
            {"encoder_learned_pos": True, "decoder_learned_pos": True, "max_target_positions": 9},
            "max_target_positions",
        ),
        (of_sockeye, {"config_encoder": {**STACK, "model_size": 16}}, "d_model = 16 in the encoder, 8 in"),
        (of_sockeye, {"config_embed_target": {"num_embed": 16}}, "num_embed"),
        (of_sockeye, {"config_embed_source": {"vocab_size": 21}}, "vocab_size"),
        (of_sockeye, {"config_embed_source": {"num_factors": 2}}, "num_factors"),
        (of_sockeye, {"config_embed_source": {"factor_configs": [{}]}}, "factor_configs"),
        (
            of_sockeye,
            {"config_encoder": {**STACK, "positional_embedding_type": "learned"}},
            "max_seq_len_target",
        ),
        (of_sockeye, {"config_encoder": {**STACK, "postprocess_sequence": "rn"}}, "postprocess_sequence"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(read, table, named):
    with pytest.raises(FolderError, match=named) as caught:
        read(table)
    assert caught.value.hint
