import dataclasses

import pytest
import torch

from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.pretrained import FAMILIES
from tests.weights.families.conversion import (
    converted,
    outputs,
    random_model,
    refused,
    shapes,
    through_folder,
    without,
)

NEEDED = {"vocab_size": 20, "d_model": 8, "num_heads": 4, "d_kv": 3, "num_layers": 2, "d_ff": 7}
TABLE = {
    **NEEDED,
    "num_decoder_layers": 3,
    "layer_norm_epsilon": 1e-4,
    "feed_forward_proj": "gated-gelu",
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "dropout_rate": 0.3,
    "pad_token_id": 2,
    "tie_word_embeddings": False,
}
CONFIG = EncoderDecoderConfig(
    src_vocab_size=20,
    tgt_vocab_size=20,
    d_model=8,
    num_heads=4,
    head_dim=3,
    attention_scale=1.0,
    num_encoder_layers=2,
    num_decoder_layers=3,
    d_ff=7,
    norm="rms",
    norm_eps=1e-4,
    norm_position="pre",
    activation="geglu_tanh",
    bias=False,
    positions="t5",
    position_buckets=8,
    position_distance=20,
    scaled_embedding=False,
    scaled_output=False,
    tied="embeddings",
    dropout=0.3,
    pad_id=2,
)
HEAD = ("lm_head.weight",)
SMALL = dataclasses.replace(
    CONFIG,
    src_vocab_size=9,
    tgt_vocab_size=9,
    d_model=4,
    num_heads=2,
    num_encoder_layers=1,
    num_decoder_layers=1,
)


def test_each_setting_is_one_of_ours():
    assert converted("t5", TABLE, HEAD).config == CONFIG
    assert converted("t5", FAMILIES["t5"].write(CONFIG, ()), HEAD).config == CONFIG


def test_a_setting_that_is_missing_is_the_default_of_transformers():
    assert converted("t5", NEEDED).config == dataclasses.replace(
        CONFIG,
        num_decoder_layers=2,
        norm_eps=1e-6,
        activation="relu",
        position_buckets=32,
        position_distance=128,
        scaled_output=True,
        tied="all",
        dropout=0.1,
        pad_id=0,
    )
    written = FAMILIES["t5"].write(dataclasses.replace(CONFIG, norm_eps=None), ())
    assert written["layer_norm_epsilon"] == pytest.approx(1e-6)
    assert written["is_encoder_decoder"] is True


@pytest.mark.parametrize("name", NEEDED)
def test_a_size_has_no_default(name):
    refused("t5", without(TABLE, name), f"'{name}' is missing")


def test_a_network_that_is_not_here_is_refused():
    refused("t5", {**TABLE, "feed_forward_proj": "gated-relu"}, "feed_forward_proj = 'gated-relu' is not")


@pytest.mark.parametrize(
    ("network", "word", "gated"),
    [("relu", "relu", False), ("gelu", "gelu", False), ("gated-gelu", "gelu_new", True)],
)
def test_the_parts_of_a_network_are_those_of_its_name_which_transformers_does_not_check(network, word, gated):
    table = {**TABLE, "feed_forward_proj": network}
    config = converted("t5", table).config
    assert converted("t5", {**table, "dense_act_fn": word, "is_gated_act": gated}).config == config
    refused("t5", {**table, "dense_act_fn": "silu"}, "dense_act_fn = 'silu' is not supported", repr(word))
    refused("t5", {**table, "is_gated_act": not gated}, f"is_gated_act = {not gated} is not", repr(gated))


def test_what_changes_no_output_is_accepted():
    idle = dict.fromkeys(("n_positions", "output_past", "classifier_dropout", "is_decoder"), 1)
    assert converted("t5", TABLE | idle, HEAD).config == CONFIG


@pytest.mark.parametrize(
    ("settings", "names", "tied", "scaled"),
    [
        ({"tie_word_embeddings": True}, (), "all", True),
        ({"tie_word_embeddings": True}, HEAD, "all", True),
        ({"tie_word_embeddings": False}, HEAD, "embeddings", False),
        ({"tie_word_embeddings": False}, (), "all", False),
        ({"tie_word_embeddings": True, "scale_decoder_outputs": False}, HEAD, "embeddings", False),
        ({"tie_word_embeddings": False, "scale_decoder_outputs": True}, HEAD, "embeddings", True),
    ],
)
def test_the_head_is_tied_if_the_file_has_none_or_config_and_scale_say_so(settings, names, tied, scaled):
    assert converted("t5", TABLE | settings, names).config == dataclasses.replace(
        CONFIG, tied=tied, scaled_output=scaled
    )


def test_texts_begin_with_the_start_token_else_with_padding():
    found = converted("t5", {**TABLE, "decoder_start_token_id": 5, "eos_token_id": 1})
    assert (found.start_id, found.pad_id, found.eos_id) == (5, 2, 1)
    assert converted("t5", {**TABLE, "decoder_start_token_id": 0}).start_id == 0
    assert converted("t5", TABLE).start_id == 2
    assert converted("t5", NEEDED).start_id is None


def test_special_tokens_of_the_tokeniser_are_written():
    ids = {"pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 3, "first_token_id": 4}
    assert FAMILIES["t5"].special_token_ids(CONFIG, ids) == {
        "pad_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 3,
    }


def test_the_file_has_the_tensors_of_transformers():
    def attention(name):
        return {f"{name}.{each}.weight": (6, 4) for each in "qkv"} | {f"{name}.o.weight": (4, 6)}

    sides = {}
    for side, last in (("encoder", 1), ("decoder", 2)):
        layer = f"{side}.block.0.layer"
        sides |= attention(f"{layer}.0.SelfAttention")
        sides |= {f"{layer}.{number}.layer_norm.weight": (4,) for number in range(last + 1)}
        sides |= {f"{layer}.{last}.DenseReluDense.wi_{each}.weight": (7, 4) for each in (0, 1)}
        sides |= {
            f"{layer}.{last}.DenseReluDense.wo.weight": (4, 7),
            f"{layer}.0.SelfAttention.relative_attention_bias.weight": (8, 2),
            f"{side}.final_layer_norm.weight": (4,),
        }
    sides |= attention("decoder.block.0.layer.1.EncDecAttention")
    tied = {"shared.weight": (9, 4), **sides}
    assert shapes("t5", SMALL) == {**tied, "lm_head.weight": (9, 4)}
    assert shapes("t5", dataclasses.replace(SMALL, activation="swiglu", tied="all")) == tied
    plain = shapes("t5", dataclasses.replace(SMALL, activation="relu", tied="all"))
    gates = {name for name in tied if ".wi_" in name}
    assert plain.keys() - tied.keys() == {name.replace(".wi_0", ".wi") for name in gates if "wi_0" in name}
    assert tied.keys() - plain.keys() == gates


@pytest.mark.parametrize(
    "changes",
    [{}, {"tied": "all", "scaled_output": True, "activation": "relu"}, {"tied": "all"}],
    ids=str,
)
def test_a_model_comes_back_from_a_folder(changes, tmp_path):
    loaded = random_model(dataclasses.replace(SMALL, **changes))
    again = through_folder(loaded, "t5", tmp_path).loaded
    assert again.config == loaded.config
    assert torch.equal(outputs(again), outputs(loaded))
