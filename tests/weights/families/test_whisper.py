"""Each setting of Whisper is one of ours, or is refused by name; models come back from folders."""

import dataclasses
import json

import pytest
import torch

from regard.errors import FolderError
from regard.models.speech_to_text import SpeechToTextConfig
from regard.weights.families.family import ConvertedConfig
from regard.weights.pretrained import FAMILIES, load_pretrained, to_huggingface
from tests.weights.families.conversion import converted, random_model, refused, through_folder

TABLE = {
    "architectures": ["WhisperForConditionalGeneration"],
    "vocab_size": 23,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 28,
    "decoder_ffn_dim": 20,
    "num_mel_bins": 5,
    "max_source_positions": 6,
    "max_target_positions": 9,
    "activation_function": "relu",
    "dropout": 0.1,
    "attention_dropout": 0.2,
    "activation_dropout": 0.3,
    "pad_token_id": 2,
    "eos_token_id": 2,
    "decoder_start_token_id": 3,
}
CONFIG = SpeechToTextConfig(
    vocab_size=23, d_model=16, num_encoder_layers=2, num_decoder_layers=3, num_encoder_heads=4, num_heads=2,
    d_ff_encoder=28, d_ff=20, num_features=5, max_source_positions=6, max_positions=9, activation="relu",
    dropout=0.1, attention_dropout=0.2, activation_dropout=0.3, pad_id=2,
)  # fmt: skip
OF_A_SECOND = dataclasses.replace(CONFIG, sampling_rate=960, hop_length=80, fft_size=64)
FAMILY = FAMILIES["whisper"]
WINDOW = {"feature_size": 5, "sampling_rate": 960, "hop_length": 80, "n_fft": 64, "chunk_length": 1}


def with_features(folder, file="preprocessor_config.json", config=CONFIG, **table):
    content = table if file == "preprocessor_config.json" else {"feature_extractor": table}
    (folder / file).write_text(json.dumps(content), "utf-8")
    return FAMILY.with_other_files(ConvertedConfig(config=config), folder).config


def test_each_setting_is_one_of_ours():
    found = converted("whisper", TABLE)
    assert found == ConvertedConfig(config=CONFIG, start_id=3, pad_id=2, eos_id=2)
    assert converted("whisper", FAMILY.write(CONFIG, ())).config == CONFIG


def test_a_setting_that_is_missing_is_that_of_whisper_tiny(tmp_path):
    found = converted("whisper", {})
    assert found.config == SpeechToTextConfig(
        vocab_size=51865, d_model=384, num_encoder_layers=4, num_decoder_layers=4, num_encoder_heads=6,
        num_heads=6, d_ff_encoder=1536, d_ff=1536, pad_id=50256,
    )  # fmt: skip
    assert (found.start_id, found.pad_id, found.eos_id) == (50257, 50256, 50256)
    assert with_features(tmp_path, config=found.config) == found.config
    null = converted("whisper", {"pad_token_id": None})
    assert (null.pad_id, null.config.pad_id) == (None, 0)


def test_transformers_reads_what_kind_of_model_is_written():
    written = FAMILY.write(OF_A_SECOND, ())
    assert written["architectures"] == ["WhisperForConditionalGeneration"]
    assert written["is_encoder_decoder"] is True
    features = json.loads(FAMILY.other_files(OF_A_SECOND)["preprocessor_config.json"])
    assert (features["chunk_length"], features["return_attention_mask"]) == (1, False)


def test_what_would_change_the_output_is_refused():
    for name in ("WhisperForAudioClassification", "WhisperForCausalLM"):
        refused("whisper", {**TABLE, "architectures": [name]}, f"{name} is not supported")
    refused(
        "whisper", {**TABLE, "tie_word_embeddings": False}, "tie_word_embeddings = False is not supported"
    )
    refused("whisper", {**TABLE, "activation_function": "mish"}, "activation_function = 'mish'")
    refused("whisper", {**TABLE, "conv_strides": [1, 2]}, "'conv_strides' is unknown to regard")
    refused("whisper", {**TABLE, "decoder_start_token_id": 23}, "decoder_start_token_id = 23 is not a token")


def test_what_changes_no_output_is_accepted():
    idle = {
        "scale_embedding": True,
        "mask_time_prob": 0.2,
        "median_filter_width": 9,
        "apply_spec_augment": True,
    }
    assert converted("whisper", {**TABLE, **idle, "forced_decoder_ids": None}).config == CONFIG


@pytest.mark.parametrize("file", ["preprocessor_config.json", "processor_config.json"])
def test_features_are_those_of_the_folder(tmp_path, file):
    found = with_features(tmp_path, file, **WINDOW)
    assert found == OF_A_SECOND
    found = with_features(tmp_path, file, **{**WINDOW, "hop_length": 74, "mel_filters": [[1.0]]})
    assert found == dataclasses.replace(
        CONFIG, sampling_rate=960, hop_length=74, fft_size=64, window_samples=960
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feature_size": 6}, "feature_size = 6, but config.json has 5 mel bins"),
        ({"feature_extractor_type": "Wav2Vec2FeatureExtractor"}, "feature_extractor_type"),
        ({"padding_value": 0.5}, "padding_value = 0.5 is not supported"),
        ({"padding_value": 1}, "padding_value = 1 is not supported"),
        ({"dither": 1}, "dither = 1 is not supported"),
        ({"padding_side": "left"}, "padding_side = 'left' is not supported"),
        ({"dither": 1e-4}, "dither = 0.0001 is not supported"),
        ({"do_normalize": True}, "do_normalize = True is not supported"),
        ({"preemphasis": 0.97}, "'preemphasis' is unknown to regard"),
        ({"chunk_length": 2}, "have 24 frames, but max_source_positions"),
        ({"n_fft": 63}, "fft_size = 63"),
    ],
    ids=str,
)
def test_features_that_are_not_reproduced_are_refused(tmp_path, changes, message):
    with pytest.raises(FolderError, match=message) as caught:
        with_features(tmp_path, **{**WINDOW, **changes})
    assert "preprocessor_config.json" in caught.value.message


def test_a_folder_without_a_feature_extractor_is_refused(tmp_path):
    with pytest.raises(FolderError, match=r"has no preprocessor_config.json"):
        FAMILY.with_other_files(ConvertedConfig(config=CONFIG), tmp_path)


def test_a_model_comes_back_from_a_folder_without_the_biases_of_keys(tmp_path):
    loaded = random_model(OF_A_SECOND)
    again = through_folder(loaded, "whisper", tmp_path).loaded
    assert again.config == OF_A_SECOND
    frames = torch.randn(2, 12, 5, generator=torch.Generator().manual_seed(2))
    ids = torch.tensor([[3, 1, 4], [5, 9, 2]])
    with torch.no_grad():
        torch.testing.assert_close(again.model(frames, ids), loaded.model(frames, ids))
    names = to_huggingface(loaded, "whisper").files["model.safetensors"]
    assert isinstance(names, dict)
    assert not [name for name in names if name.endswith("k_proj.bias")]
    assert tuple(names["model.encoder.conv2.weight"].shape) == (16, 16, 3)


def test_a_file_may_lack_the_head_but_has_no_bias_of_keys(tmp_path):
    from safetensors.torch import load_file, save_file

    loaded = random_model(OF_A_SECOND)
    through_folder(loaded, "whisper", tmp_path)
    file = tmp_path / "whisper" / "model.safetensors"
    tensors = load_file(file)
    bare = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    save_file(bare, file)
    assert load_pretrained(tmp_path / "whisper").loaded.config == OF_A_SECOND
    save_file({**tensors, "model.encoder.layers.0.self_attn.k_proj.bias": torch.ones(16)}, file)
    with pytest.raises(FolderError, match=r"has no 'model.encoder.layers.0.self_attn.k_proj.bias'"):
        load_pretrained(tmp_path / "whisper")


def test_a_window_that_is_no_whole_second_is_not_written():
    with pytest.raises(FolderError, match="not a whole number of seconds"):
        to_huggingface(random_model(CONFIG), "whisper")
