import dataclasses

import pytest
import torch

from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.names import renamed
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

NEEDED = {
    "architectures": ["BartModel"],
    "vocab_size": 20,
    "d_model": 8,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_ffn_dim": 7,
    "decoder_ffn_dim": 7,
}
TABLE = {
    **NEEDED,
    "activation_function": "relu",
    "max_position_embeddings": 40,
    "scale_embedding": True,
    "dropout": 0.2,
    "attention_dropout": 0.3,
    "activation_dropout": 0.4,
    "pad_token_id": 2,
}
CONFIG = EncoderDecoderConfig(
    src_vocab_size=20,
    tgt_vocab_size=20,
    d_model=8,
    num_heads=4,
    num_encoder_layers=2,
    num_decoder_layers=3,
    d_ff=7,
    activation="relu",
    positions="sinusoidal",
    position_layout="split",
    max_positions=40,
    scaled_embedding=True,
    output_bias=True,
    tied="all",
    dropout=0.2,
    attention_dropout=0.3,
    activation_dropout=0.4,
    pad_id=2,
)
BART = dataclasses.replace(CONFIG, positions="learned", position_offset=2, embedding_norm=True)
OURS = {"marian": CONFIG, "bart": BART}
BIAS = ("final_logits_bias",)
SIZES = {"src_vocab_size": 9, "tgt_vocab_size": 9, "d_model": 4, "num_heads": 2, "max_positions": 6}
LAYERS = {"num_encoder_layers": 1, "num_decoder_layers": 1}
SMALL = {name: dataclasses.replace(config, **SIZES, **LAYERS) for name, config in OURS.items()}


@pytest.mark.parametrize("family", OURS)
def test_each_setting_is_one_of_ours(family):
    assert converted(family, TABLE, BIAS).config == OURS[family]
    written = FAMILIES[family].write(OURS[family], ())
    assert converted(family, written, BIAS).config == OURS[family]
    assert written["is_encoder_decoder"] is True


@pytest.mark.parametrize("family", OURS)
def test_a_setting_that_is_missing_is_the_default_of_transformers(family):
    found = converted(family, NEEDED)
    assert found.config == dataclasses.replace(
        OURS[family],
        activation="gelu",
        max_positions=1024,
        scaled_embedding=False,
        output_bias=False,
        dropout=0.1,
        attention_dropout=0.0,
        activation_dropout=0.0,
        pad_id=0,
    )
    assert (found.pad_id, found.start_id, found.eos_id, found.prefix) == (None, None, None, ())


@pytest.mark.parametrize("name", [name for name in NEEDED if name != "architectures"])
def test_a_size_has_no_default(name):
    refused("marian", without(TABLE, name), f"'{name}' is missing")


@pytest.mark.parametrize("family", OURS)
@pytest.mark.parametrize(
    ("name", "right_for_marian", "right_for_bart"),
    [
        ("tie_word_embeddings", True, True),
        ("static_position_embeddings", True, False),
        ("normalize_before", False, False),
        ("normalize_embedding", False, True),
        ("add_final_layer_norm", False, False),
        ("add_bias_logits", False, False),
    ],
)
def test_what_would_change_the_output_is_refused(family, name, right_for_marian, right_for_bart):
    right = {"marian": right_for_marian, "bart": right_for_bart}[family]
    refused(family, {**TABLE, name: not right}, f"{name} = {not right} is not", f"only {right} is")
    assert converted(family, {**TABLE, name: right}, BIAS).config == OURS[family]


def test_source_and_target_of_bart_have_one_embedding():
    name = "share_encoder_decoder_embeddings"
    usual = {**without(TABLE, name), "decoder_vocab_size": None}
    for value in (True, None):
        assert converted("bart", {**usual, name: value}, BIAS).config == BART
    refused("bart", {**usual, name: False}, f"{name} = False is not supported", "only True is")
    refused("bart", {**usual, "decoder_vocab_size": 9}, "decoder_vocab_size = 9 is not supported")


@pytest.mark.parametrize("name", ["attention_heads", "ffn_dim"])
def test_both_sides_have_one_size(name):
    table = {**TABLE, f"encoder_{name}": 2, f"decoder_{name}": 4}
    refused("marian", table, f"encoder_{name} = 2, decoder_{name} = 4", "equal sizes on both sides")


def test_what_changes_no_output_is_accepted():
    idle = (
        *("encoder_layerdrop", "decoder_layerdrop", "num_hidden_layers", "extra_pos_embeddings"),
        *("classifier_dropout", "classif_dropout", "force_bos_token_to_be_generated", "save_step"),
        *("max_length_of_pairs", "gradient_checkpointing", "static_embeddings", "is_decoder"),
    )
    assert converted("marian", TABLE | dict.fromkeys(idle, 1), BIAS).config == CONFIG


def test_a_vocabulary_of_its_own_for_the_target():
    table = {**TABLE, "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 30}
    ours = dataclasses.replace(CONFIG, tgt_vocab_size=30, tied="target")
    assert converted("marian", table, BIAS).config == ours
    written = FAMILIES["marian"].write(ours, ())
    assert converted("marian", written, BIAS).config == ours
    shared = converted("marian", {**TABLE, "decoder_vocab_size": 30}, BIAS)
    assert shared.config == CONFIG
    assert (
        FAMILIES["bart"]
        .write(BART, ())
        .keys()
        .isdisjoint(("share_encoder_decoder_embeddings", "decoder_vocab_size"))
    )
    found = converted("marian", {**table, "decoder_start_token_id": 25, "eos_token_id": 26})
    assert (found.start_id, found.eos_id) == (25, 26)  # ids of the target
    refused("marian", {**table, "pad_token_id": 25}, "pad_token_id = 25 is not a token id")  # of both sides


def test_texts_begin_with_the_start_token_else_with_padding():
    found = converted("marian", {**TABLE, "decoder_start_token_id": 5, "eos_token_id": 1})
    assert (found.start_id, found.pad_id, found.eos_id) == (5, 2, 1)
    assert converted("marian", {**TABLE, "decoder_start_token_id": 0}).start_id == 0
    assert converted("marian", TABLE).start_id == 2
    assert converted("marian", {**TABLE, "pad_token_id": 0}).pad_id == 0


def test_texts_of_bart_begin_with_bos_on_both_sides():
    for bos in (0, 3):
        assert converted("bart", {**TABLE, "bos_token_id": bos}).prefix == (bos,)
    assert converted("bart", TABLE).prefix == ()
    assert converted("marian", {**TABLE, "bos_token_id": 3}).prefix == ()


def test_a_bart_for_another_task_is_refused():
    for name in ("BartForSequenceClassification", "BartForCausalLM"):
        refused("bart", {**TABLE, "architectures": [name]}, f"{name} is not supported", "BartModel are")
    refused("bart", without(TABLE, "architectures"), "its class is not supported")
    named = {**TABLE, "architectures": ["BartForConditionalGeneration"]}
    assert converted("bart", named, BIAS).config == BART


def test_special_tokens_of_the_tokeniser_are_written():
    ids = {"pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 3}
    written = {**without(ids, "bos_token_id"), "decoder_start_token_id": 3, "forced_eos_token_id": 2}
    for family, config in OURS.items():
        assert FAMILIES[family].special_token_ids(config, ids) == written
    first = {**ids, "first_token_id": 4}
    assert FAMILIES["marian"].special_token_ids(CONFIG, first) == written
    assert FAMILIES["bart"].special_token_ids(BART, first) == {**written, "bos_token_id": 4}


def named(family: str, *, shared: bool = True, bias: bool = True) -> dict[str, tuple[int, ...]]:
    """The tensors of a file of transformers, for a model of one layer on each side."""
    dense: dict[str, tuple[int, int]] = {}
    norms: list[str] = []
    others: dict[str, tuple[int, ...]] = {"final_logits_bias": (1, 9)} if bias else {}
    for side in ("encoder", "decoder"):
        block = f"model.{side}.layers.0"
        attentions = ["self_attn", *(["encoder_attn"] if side == "decoder" else [])]
        for attention in attentions:
            dense |= {f"{block}.{attention}.{each}_proj": (4, 4) for each in ("q", "k", "v", "out")}
            norms.append(f"{block}.{attention}_layer_norm")
        dense |= {f"{block}.fc1": (7, 4), f"{block}.fc2": (4, 7)}
        norms.append(f"{block}.final_layer_norm")
        if family == "bart":
            norms.append(f"model.{side}.layernorm_embedding")
            others[f"model.{side}.embed_positions.weight"] = (8, 4)
        if not shared:
            others[f"model.{side}.embed_tokens.weight"] = (9, 4)
    return {
        **others,
        **({"model.shared.weight": (9, 4)} if shared else {}),
        **{f"{name}.weight": shape for name, shape in dense.items()},
        **{f"{name}.bias": shape[:1] for name, shape in dense.items()},
        **{f"{name}.{part}": (4,) for name in norms for part in ("weight", "bias")},
    }


def test_the_file_has_the_tensors_of_transformers():
    for family, config in SMALL.items():
        assert shapes(family, config) == named(family)
    apart = dataclasses.replace(SMALL["marian"], tied="target", output_bias=False)
    assert shapes("marian", apart) == named("marian", shared=False, bias=False)


@pytest.mark.parametrize("family", OURS)
def test_a_model_comes_back_from_a_folder(family, tmp_path):
    loaded = random_model(SMALL[family])
    again = through_folder(loaded, family, tmp_path).loaded
    assert again.config == loaded.config
    assert torch.equal(outputs(again), outputs(loaded))


@pytest.mark.parametrize(
    "changes",
    [
        {"bias": False},
        {"output_bias": False},
        {"tied": "target", "tgt_vocab_size": 11, "bias": False, "output_bias": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", ["interleaved", "split"])
def test_a_model_of_another_form_gives_the_same_logits_from_a_folder(changes, layout, tmp_path):
    config = dataclasses.replace(SMALL["marian"], **changes, position_layout=layout)
    loaded = random_model(config)
    again = through_folder(loaded, "marian", tmp_path).loaded
    wanted = dataclasses.replace(config, bias=True, output_bias=True, position_layout="split")
    assert again.config == wanted
    torch.testing.assert_close(outputs(again), outputs(loaded), rtol=1e-5, atol=1e-5)


def test_learned_positions_have_no_layout():
    loaded = random_model(dataclasses.replace(SMALL["bart"], position_layout="interleaved"))
    _, tensors = FAMILIES["bart"].in_family_form(loaded.config, dict(loaded.model.state_dict()))
    assert all(torch.equal(tensors[name], tensor) for name, tensor in loaded.model.state_dict().items())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            ["shared.weight", "encoder.layers.0.fc1.weight", "decoder.a"],
            ["model.shared.weight", "model.encoder.layers.0.fc1.weight", "model.decoder.a"],
        ),
        (["lm_head.weight", "model.encoder.a"], ["model.shared.weight", "model.encoder.a"]),
        (
            ["model.decoder.embed_tokens.weight", "lm_head.weight"],
            ["model.shared.weight", "lm_head.weight"],
        ),
        (["model.shared.weight", "lm_head.weight"], ["model.shared.weight", "lm_head.weight"]),
        (
            ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"],
            ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"],
        ),
        (["model.encoder.a"], ["model.encoder.a"]),
    ],
    ids=str,
)
def test_names_of_older_files_are_known(old, new):
    tensors = {name: torch.zeros(0) for name in old}
    assert list(renamed(tensors, FAMILIES["marian"].old_names(tensors))) == new
