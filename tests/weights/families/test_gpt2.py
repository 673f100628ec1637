import dataclasses

import pytest
import torch

from regard.models.decoder_only import DecoderOnlyConfig
from regard.weights.pretrained import FAMILIES
from tests.weights.families.conversion import (
    converted,
    outputs,
    random_model,
    refused,
    shapes,
    through_folder,
)

TABLE = {
    "vocab_size": 20,
    "n_embd": 8,
    "n_head": 4,
    "n_layer": 3,
    "n_inner": 7,
    "n_positions": 40,
    "activation_function": "relu",
    "layer_norm_epsilon": 1e-4,
    "resid_pdrop": 0.3,
    "embd_pdrop": 0.3,
    "attn_pdrop": 0.2,
}
CONFIG = DecoderOnlyConfig(
    vocab_size=20,
    d_model=8,
    num_heads=4,
    num_layers=3,
    d_ff=7,
    activation="relu",
    norm_eps=1e-4,
    max_positions=40,
    trained_length=40,
    dropout=0.3,
    attention_dropout=0.2,
)
SMALL = dataclasses.replace(CONFIG, d_model=4, num_heads=2, num_layers=1, vocab_size=9, max_positions=6)


def test_each_setting_is_one_of_ours():
    assert converted("gpt2", TABLE).config == CONFIG
    newer = {
        "vocab_size": 20,
        "hidden_size": 8,
        "num_attention_heads": 4,
        "num_hidden_layers": 3,
        "max_position_embeddings": 40,
        **{name: TABLE[name] for name in (*list(TABLE)[-5:], "n_inner")},
    }
    assert converted("gpt2", newer).config == CONFIG
    assert converted("gpt2", FAMILIES["gpt2"].write(CONFIG, ())).config == CONFIG


def test_a_setting_that_is_missing_is_that_of_the_smallest_gpt2():
    assert converted("gpt2", {}).config == DecoderOnlyConfig(
        vocab_size=50257,
        d_model=768,
        num_heads=12,
        num_layers=12,
        d_ff=3072,
        activation="gelu_tanh",
        norm_eps=1e-5,
        max_positions=1024,
        trained_length=1024,
        dropout=0.1,
        attention_dropout=0.1,
    )
    assert FAMILIES["gpt2"].write(dataclasses.replace(CONFIG, norm_eps=None), ())[
        "layer_norm_epsilon"
    ] == pytest.approx(1e-5)


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("scale_attn_weights", False, True),
        ("scale_attn_by_inverse_layer_idx", True, False),
        ("add_cross_attention", True, False),
        ("tie_word_embeddings", False, True),
    ],
)
def test_what_would_change_the_output_is_refused(name, wrong, right):
    refused("gpt2", {**TABLE, name: wrong}, f"{name} = {wrong} is not supported", f"only {right} is")
    assert converted("gpt2", {**TABLE, name: right}).config == CONFIG


def test_what_changes_no_output_is_accepted():
    idle = dict.fromkeys(("n_ctx", "is_decoder", "summary_type", "summary_use_proj", "summary_activation"), 1)
    idle |= dict.fromkeys(("summary_proj_to_labels", "summary_first_dropout", "reorder_and_upcast_attn"), 1)
    assert converted("gpt2", TABLE | idle).config == CONFIG


def test_special_tokens_are_those_of_the_config():
    found = converted("gpt2", {**TABLE, "bos_token_id": 3, "eos_token_id": 4, "pad_token_id": 5})
    assert (found.start_id, found.eos_id, found.pad_id) == (3, 4, 5)
    assert found.generation == {"begin": False, "may_end": True}


def test_the_file_has_the_tensors_of_transformers():
    layer = "transformer.h.0"
    assert shapes("gpt2", SMALL) == {
        "transformer.wte.weight": (9, 4),
        "transformer.wpe.weight": (6, 4),
        "transformer.ln_f.weight": (4,),
        "transformer.ln_f.bias": (4,),
        f"{layer}.ln_1.weight": (4,),
        f"{layer}.ln_1.bias": (4,),
        f"{layer}.ln_2.weight": (4,),
        f"{layer}.ln_2.bias": (4,),
        f"{layer}.attn.c_attn.weight": (4, 12),  # inputs before outputs
        f"{layer}.attn.c_attn.bias": (12,),
        f"{layer}.attn.c_proj.weight": (4, 4),
        f"{layer}.attn.c_proj.bias": (4,),
        f"{layer}.mlp.c_fc.weight": (4, 7),
        f"{layer}.mlp.c_fc.bias": (7,),
        f"{layer}.mlp.c_proj.weight": (7, 4),
        f"{layer}.mlp.c_proj.bias": (4,),
    }


@pytest.mark.parametrize("bias", [True, False])
def test_a_model_comes_back_from_a_folder_with_zeros_for_missing_biases(bias, tmp_path):
    loaded = random_model(dataclasses.replace(SMALL, bias=bias))
    again = through_folder(loaded, "gpt2", tmp_path).loaded
    assert again.config == dataclasses.replace(SMALL, bias=True, trained_length=6)
    torch.testing.assert_close(outputs(again), outputs(loaded))
