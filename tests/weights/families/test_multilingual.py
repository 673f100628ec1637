"""mBART, Pegasus and M2M-100: pre-norm encoder-decoders in the shape of Marian and BART."""

import dataclasses

import pytest
import torch

from regard.errors import FolderError
from regard.layers.positions import sinusoids
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.families.m2m100 import M2M100
from regard.weights.huggingface_files import write_plain_folder
from regard.weights.pretrained import FAMILIES, load_pretrained, to_huggingface
from tests.weights.families.conversion import converted, outputs, random_model, refused, through_folder

NEEDED = {
    "architectures": ["MBartModel"],
    "vocab_size": 20,
    "d_model": 8,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_ffn_dim": 7,
    "decoder_ffn_dim": 7,
}
CONFIG = EncoderDecoderConfig(
    src_vocab_size=20,
    tgt_vocab_size=20,
    d_model=8,
    num_heads=4,
    num_encoder_layers=2,
    num_decoder_layers=3,
    d_ff=7,
    activation="gelu",
    norm_position="pre",
    positions="sinusoidal",
    position_layout="split",
    max_positions=1024,
    scaled_embedding=False,
    output_bias=True,
    tied="all",
    attention_dropout=0.0,
    pad_id=1,
)
OURS = {
    "mbart": dataclasses.replace(CONFIG, positions="learned", position_offset=2, embedding_norm=True),
    "pegasus": dataclasses.replace(CONFIG, pad_id=0),
    "m2m_100": dataclasses.replace(
        CONFIG,
        activation="relu",
        position_layout="fairseq",
        position_offset=2,
        scaled_embedding=True,
        attention_dropout=0.1,
        output_bias=False,
    ),
}
SIZES = {"src_vocab_size": 9, "tgt_vocab_size": 9, "d_model": 4, "num_heads": 2, "max_positions": 6}
LAYERS = {"num_encoder_layers": 1, "num_decoder_layers": 1}
SMALL = {name: dataclasses.replace(config, **SIZES, **LAYERS) for name, config in OURS.items()}
BIAS = ("final_logits_bias",)


@pytest.mark.parametrize(
    ("family", "special"), [("mbart", (None, 1, 2)), ("pegasus", (0, 0, 1)), ("m2m_100", (2, 1, 2))]
)
def test_a_missing_setting_is_the_default_of_its_family(family, special):
    found = converted(family, NEEDED, BIAS)
    assert found.config == OURS[family]
    assert (found.start_id, found.pad_id, found.eos_id) == special
    assert found.prefix == ()
    written = FAMILIES[family].write(OURS[family], ())
    assert converted(family, written, BIAS).config == OURS[family]


@pytest.mark.parametrize("family", OURS)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"normalize_before": False}, "normalize_before = False is not supported"),
        ({"add_final_layer_norm": False}, "add_final_layer_norm = False is not supported"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings = False is not supported"),
        ({"decoder_attention_heads": 2}, "encoder_attention_heads = 4, decoder_attention_heads = 2"),
        ({"activation_function": "gelu_10"}, "activation_function = 'gelu_10' is not supported"),
        ({"use_rotary": True}, "'use_rotary' is unknown"),
    ],
    ids=str,
)
def test_what_would_change_the_output_is_refused(family, settings, message):
    refused(family, {**NEEDED, **settings}, message)


def test_m2m_100_has_one_vocabulary():
    for family in ("m2m_100", "pegasus"):
        refused(family, {**NEEDED, "decoder_vocab_size": 30}, "decoder_vocab_size = 30 is not supported")
    refused("m2m_100", {**NEEDED, "share_encoder_decoder_embeddings": False}, "share_encoder_decoder_emb")
    refused("m2m_100", {**NEEDED, "decoder_vocab_size": 20}, "decoder_vocab_size = 20 is not", "only null is")


def test_positions_of_m2m_100_begin_after_the_id_of_padding():
    found = converted("m2m_100", {**NEEDED, "pad_token_id": 4}).config
    assert found == dataclasses.replace(OURS["m2m_100"], pad_id=4, position_offset=5)


@pytest.mark.parametrize("family", OURS)
def test_a_model_comes_back_from_a_folder(family, tmp_path):
    loaded = random_model(SMALL[family])
    if family == "mbart":  # without a tokeniser its folder has no start token
        files = to_huggingface(loaded, family).files
        write_plain_folder(tmp_path / family, files)
        with pytest.raises(FolderError, match="decoder_start_token_id is missing"):
            load_pretrained(tmp_path / family)
        return
    again = through_folder(loaded, family, tmp_path).loaded
    assert again.config == loaded.config
    assert torch.equal(outputs(again), outputs(loaded))
    assert to_huggingface(loaded).family == family  # the first that fits


@pytest.mark.parametrize("family", ["marian", "pegasus"])
def test_sinusoids_in_a_file_are_those_of_the_config_or_the_file_is_refused(family, tmp_path):
    config = dataclasses.replace(SMALL["pegasus"], norm_position="post" if family == "marian" else "pre")
    files = to_huggingface(random_model(config), family).files
    usual = sinusoids(0, 6, 4, "split")
    names = [f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")]
    if family == "pegasus":  # transformers looks for them
        assert all(torch.equal(files["model.safetensors"][name], usual) for name in names)
    for number, (table, fits) in enumerate(
        [(usual, True), (usual.half(), True), (usual + 0.01, False), (usual[:5].clone(), False)]
    ):
        tensors = {**files["model.safetensors"], names[0]: table, names[1]: usual}
        folder = tmp_path / str(number)
        write_plain_folder(folder, {**files, "model.safetensors": tensors})
        if fits:
            load_pretrained(folder)
        else:
            with pytest.raises(FolderError, match=r"embed_positions\.weight' is not what follows from"):
                load_pretrained(folder)


def test_sinusoids_in_an_old_file_of_m2m_100_are_those_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers.models.m2m_100.modeling_m2m_100")
    files = to_huggingface(random_model(SMALL["m2m_100"]), "m2m_100").files
    table = transformers.M2M100SinusoidalPositionalEmbedding(6, 4, SMALL["m2m_100"].pad_id).weights
    name = "model.encoder.embed_positions.weights"
    for number, change in enumerate((0.0, 0.01)):
        tensors = {**files["model.safetensors"], name: table + change}
        write_plain_folder(tmp_path / str(number), {**files, "model.safetensors": tensors})
    load_pretrained(tmp_path / "0")
    with pytest.raises(FolderError, match=r"embed_positions\.weights' is not what follows from"):
        load_pretrained(tmp_path / "1")


def test_a_layout_that_is_not_that_of_the_family_is_refused():
    for layout, offset in (("split", 2), ("fairseq", 0)):
        config = dataclasses.replace(SMALL["m2m_100"], position_layout=layout, position_offset=offset)
        with pytest.raises(FolderError, match=r"position_(layout|offset) = "):
            to_huggingface(random_model(config), "m2m_100")


def test_positions_of_m2m100_are_counted_from_the_id_after_that_of_padding():
    assert [M2M100().position_offset(pad_id) for pad_id in (None, 0, 1, 5)] == [1, 1, 2, 6]
