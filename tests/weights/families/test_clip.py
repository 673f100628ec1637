"""Each setting of CLIP is one of ours, or is refused by name; models come back from folders."""

import dataclasses
import json

import pytest
import torch

from regard.errors import FolderError
from regard.models.image_text import ImageTextConfig
from regard.weights.families.family import ConvertedConfig
from regard.weights.pretrained import FAMILIES, load_pretrained, to_huggingface
from tests.clip_folder import change, clip, write_preprocessor
from tests.weights.families.conversion import converted, random_model, refused, shapes, through_folder

TEXT = {
    "model_type": "clip_text_model",
    "vocab_size": 31,
    "hidden_size": 12,
    "intermediate_size": 17,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "max_position_embeddings": 9,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-3,
    "attention_dropout": 0.1,
    "eos_token_id": 30,
    "dropout": 0.0,
}
VISION = {
    "model_type": "clip_vision_model",
    "hidden_size": 16,
    "intermediate_size": 19,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_channels": 3,
    "image_size": 12,
    "patch_size": 4,
    "hidden_act": "relu",
    "layer_norm_eps": 1e-4,
    "attention_dropout": 0.2,
}
TABLE = {
    "architectures": ["CLIPModel"],
    "projection_dim": 10,
    "logit_scale_init_value": 2.6592,
    "text_config": TEXT,
    "vision_config": VISION,
}
OF_TEXT = {
    "vocab_size": 31, "d_text": 12, "d_ff_text": 17, "text_layers": 2, "text_heads": 3, "end_id": 30,
    "max_positions": 9, "text_activation": "gelu", "text_norm_eps": 1e-3, "text_attention_dropout": 0.1,
}  # fmt: skip
OF_IMAGES = {
    "d_image": 16, "d_ff_image": 19, "image_layers": 3, "image_heads": 2, "image_size": 12, "patch_size": 4,
    "image_activation": "relu", "image_norm_eps": 1e-4, "image_attention_dropout": 0.2,
}  # fmt: skip
PLAIN = {"pixel_mean": 0.0, "pixel_std": 1.0}
CONFIG = ImageTextConfig(d_model=10, **OF_TEXT, **OF_IMAGES, **PLAIN)
TEXT_ALONE = ImageTextConfig(d_model=10, **OF_TEXT)
IMAGES_ALONE = ImageTextConfig(d_model=10, **OF_IMAGES, **PLAIN)
BARE = {"projection": False}
CASES = {
    "clip": CONFIG,
    "clip, legacy end": dataclasses.replace(CONFIG, end_id=None),
    "clip_text_model": TEXT_ALONE,
    "clip_text_model, bare": dataclasses.replace(TEXT_ALONE, d_model=12, **BARE),
    "clip_vision_model": IMAGES_ALONE,
    "clip_vision_model, bare": dataclasses.replace(IMAGES_ALONE, d_model=16, **BARE),
}


def test_each_setting_is_one_of_ours():
    assert converted("clip", TABLE) == ConvertedConfig(config=CONFIG)
    with_width = {"projection_dim": 10, "architectures": ["CLIPTextModelWithProjection"]}
    assert converted("clip_text_model", {**TEXT, **with_width}).config == TEXT_ALONE
    with_width["architectures"] = ["CLIPVisionModelWithProjection"]
    assert converted("clip_vision_model", {**VISION, **with_width}).config == IMAGES_ALONE


@pytest.mark.parametrize("case", CASES)
def test_a_config_comes_back_from_what_is_written_of_it(case):
    family, config = FAMILIES[case.partition(",")[0]], CASES[case]
    names = {name for entry in family.table(config) for name in entry.hf}
    found = converted(family.name, family.write(config, ()), names).config
    assert found == dataclasses.replace(config, pixel_mean=found.pixel_mean, pixel_std=found.pixel_std)


@pytest.mark.parametrize(("family", "table"), [("clip_text_model", TEXT), ("clip_vision_model", VISION)])
def test_a_tower_alone_is_of_one_of_its_two_classes(family, table):
    bare, projected = sorted(FAMILIES[family].architectures, key=len)
    found = converted(family, {**table, "architectures": [projected], "tie_word_embeddings": True}).config
    assert (found.d_model, found.projection) == (512, True)
    found = converted(family, {**table, "architectures": [bare]}).config
    assert (found.d_model, found.projection) == (table["hidden_size"], False)
    refused(family, {**table, "architectures": ["CLIPForImageClassification"]}, "CLIPForImageClassification")


def test_the_end_is_any_token_of_the_vocabulary():
    for end_id in (0, 30):
        assert converted("clip_text_model", {**TEXT, "eos_token_id": end_id}).config.end_id == end_id
    for end_id in (-1, 31):
        refused(
            "clip_text_model", {**TEXT, "eos_token_id": end_id}, f"eos_token_id = {end_id} is not a token"
        )


def test_an_end_that_old_files_give_another_meaning_is_not_written():
    with pytest.raises(FolderError, match="end_id = 2 is written as eos_token_id = 2"):
        FAMILIES["clip"].write(dataclasses.replace(CONFIG, end_id=2), ())


def test_a_setting_that_is_missing_is_that_of_vit_b_32():
    assert converted("clip", {}).config == ImageTextConfig(
        vocab_size=49408, end_id=49407, image_size=224, **PLAIN
    )


OLD = {  # what transformers 4.16 wrote into every object of a config.json
    **dict.fromkeys(
        (
            "architectures", "bad_words_ids", "bos_token_id", "cross_attention_hidden_size",
            "decoder_start_token_id", "finetuning_task", "forced_bos_token_id", "forced_eos_token_id",
            "pad_token_id", "prefix", "problem_type", "sep_token_id", "task_specific_params",
            "tokenizer_class", "torch_dtype",
        ),
    ),
    **dict.fromkeys(
        (
            "add_cross_attention", "do_sample", "early_stopping", "is_decoder", "is_encoder_decoder",
            "output_attentions", "output_hidden_states", "output_scores", "remove_invalid_values",
            "return_dict_in_generate", "tie_encoder_decoder", "torchscript", "use_bfloat16",
        ),
        False,
    ),
    "_name_or_path": "", "return_dict": True, "tie_word_embeddings": True, "dropout": 0.0,
    "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "pruned_heads": {}, "temperature": 1.0,
    "top_k": 50, "top_p": 1.0, "max_length": 20, "min_length": 0, "num_beams": 1, "initializer_range": 0.02,
    "transformers_version": "4.16.0.dev0", "initializer_factor": 1.0, "projection_dim": 512,
}  # fmt: skip


def test_what_old_files_repeat_in_each_tower_changes_nothing():
    text, vision = {**OLD, **TEXT}, {**OLD, **VISION, "eos_token_id": None}
    old = {**TABLE, "text_config": text, "vision_config": vision}
    dicts = {"text_config_dict": None, "vision_config_dict": None}
    assert converted("clip", {**old, **dicts, "initializer_factor": 1.0}).config == CONFIG


def test_an_end_of_2_is_that_of_old_files():
    old = {**TABLE, "text_config": {**TEXT, "eos_token_id": 2}}
    assert converted("clip", old).config.end_id is None


def test_a_tower_of_an_older_file_takes_precedence():
    """Where both are there, transformers reads the older object and the defaults of what it leaves out."""
    older = {"hidden_size": 24, "eos_token_id": 5}
    found = converted("clip", {**TABLE, "text_config_dict": older}).config
    assert (found.d_text, found.end_id, found.text_layers, found.d_image) == (24, 5, 12, 16)
    assert converted("clip", {**TABLE, "text_config_dict": None}).config == CONFIG


def test_a_folder_that_names_no_class_has_a_projection_if_there_are_weights_of_one():
    for family, table, name in (
        ("clip_text_model", TEXT, "text_projection.weight"),
        ("clip_vision_model", VISION, "visual_projection.weight"),
    ):
        bare, whole = (converted(family, {**table, "projection_dim": 10}, names) for names in ((), (name,)))
        assert (bare.config.projection, bare.config.d_model) == (False, table["hidden_size"])
        assert (whole.config.projection, whole.config.d_model) == (True, 10)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"architectures": ["CLIPForImageClassification"]}, "CLIPForImageClassification is not supported"),
        ({"text_config": {**TEXT, "eos_token_id": 31}}, "text_config: eos_token_id = 31 is not a token id"),
        ({"text_config": {**TEXT, "eos_token_id": [3, 4]}}, "eos_token_id = .3, 4. is not of type int"),
        ({"text_config": {**TEXT, "hidden_act": "sigmoid"}}, "text_config: hidden_act = 'sigmoid' is not"),
        ({"text_config": {**TEXT, "model_type": "siglip_text_model"}}, "model_type = 'siglip_text_model'"),
        ({"text_config": {**TEXT, "is_decoder": True}}, "is_decoder = True is not supported"),
        ({"text_config": {**TEXT, "temper": 1}}, "text_config: the setting 'temper' is unknown"),
        ({"vision_config": {**VISION, "image_size": [12, 8]}}, "image_size = .12, 8. is not of type int"),
        ({"vision_config": {**VISION, "temper": 1}}, "vision_config: the setting 'temper' is unknown"),
        ({"vision_config": 3}, "vision_config = 3 is not an object"),
        ({"temper": 1}, "the setting 'temper' is unknown"),
    ],
)
def test_what_cannot_be_followed_is_refused(table, message):
    refused("clip", {**TABLE, **table}, message)


def test_patches_that_do_not_fill_an_image_are_refused(tmp_path):
    clip(tmp_path, "images")
    change(tmp_path, "config.json", image_size=14)
    with pytest.raises(FolderError, match="patch_size = 4 does not divide image_size = 14"):
        load_pretrained(tmp_path)


def preprocessed(folder, config=CONFIG, **changes):
    write_preprocessor(folder, **changes)
    return FAMILIES["clip"].with_other_files(ConvertedConfig(config=config), folder).config


@pytest.mark.parametrize(
    ("changes", "ours"),
    [
        ({}, {}),
        ({"size": 12, "crop_size": 12}, {}),  # as in the oldest files
        ({"size": {"shortest_edge": 15}}, {"resized_size": 15}),
        ({"size": {"height": 13, "width": 13}}, {"resizing": "square", "resized_size": 13}),
        ({"do_center_crop": False, "size": {"height": 12, "width": 12}},
         {"resizing": "square", "cropped": False}),
        ({"do_center_crop": False}, {"cropped": False}),
        ({"do_resize": False}, {"resizing": None}),
        ({"do_resize": False, "do_center_crop": False}, {"resizing": None, "cropped": False}),
        ({"resample": 2}, {"resampling": "bilinear"}),
        ({"image_processor_type": "CLIPImageProcessorFast", "processor_class": "CLIPProcessor"}, {}),
        ({"image_processor_type": None, "feature_extractor_type": "CLIPFeatureExtractor"}, {}),
    ],
)  # fmt: skip
def test_images_are_resized_and_cropped_as_the_file_says(tmp_path, changes, ours):
    found = preprocessed(tmp_path, **changes)
    scale = {"pixel_mean": found.pixel_mean, "pixel_std": found.pixel_std}
    assert scale["pixel_mean"] == pytest.approx((0.48145466, 0.4578275, 0.40821073))
    assert found == dataclasses.replace(CONFIG, **scale, **ours)
    content = FAMILIES["clip"].other_files(found)["preprocessor_config.json"]
    (tmp_path / "preprocessor_config.json").write_bytes(content)
    again = FAMILIES["clip"].with_other_files(ConvertedConfig(config=CONFIG), tmp_path).config
    assert again.pixel_std == pytest.approx(found.pixel_std)
    assert dataclasses.replace(again, **scale) == found


def test_pixels_are_scaled_as_the_file_says(tmp_path):
    for changes, mean, std in (
        ({"do_normalize": False}, 0.0, 1.0),
        ({"do_rescale": False, "image_mean": 51.0, "image_std": 255}, 0.2, 1.0),
        ({"image_mean": [0.5] * 3, "image_std": None}, 0.5, (0.26862954, 0.26130258, 0.27577711)),
    ):
        found = preprocessed(tmp_path, **changes)
        assert (found.pixel_mean, found.pixel_std) == (pytest.approx(mean), pytest.approx(std))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": {"shortest_edge": 12, "longest_edge": 20}}, "size = .* is not supported"),
        ({"size": {"height": 12, "width": 13}}, "size = .* is not supported"),
        ({"size": "12"}, "size = '12' is not supported"),
        ({"size": {"shortest_edge": 0}}, "size = .* is not supported"),
        ({"size": 0}, "size = 0 is not supported"),
        ({"crop_size": {"height": 12, "width": 13}}, "crop_size = .* is not supported"),
        ({"crop_size": 8}, "crop_size = 8, but config.json has image_size = 12"),
        ({"do_center_crop": False, "size": 15}, "size = 15, but config.json has image_size = 12"),
        ({"resample": 1}, "resample = 1 is not supported"),
        ({"do_pad": True}, "do_pad = True is not supported"),
        ({"do_convert_rgb": False}, "do_convert_rgb = False is not supported"),
        ({"image_processor_type": "ViTImageProcessor"}, "image_processor_type = 'ViTImageProcessor'"),
        ({"data_format": "channels_last"}, "data_format = 'channels_last' is not supported"),
        ({"do_resize": "yes"}, "do_resize = 'yes' is not of type bool"),
        ({"image_std": 0}, "image_std = 0.0 cannot scale pixels"),
        ({"crop_pct": 0.9}, "the setting 'crop_pct' is unknown"),
    ],
)
def test_what_would_change_images_otherwise_is_refused(tmp_path, changes, message):
    with pytest.raises(FolderError, match=message) as caught:
        preprocessed(tmp_path, **changes)
    assert "preprocessor_config.json" in caught.value.message


def test_the_settings_may_be_in_the_newer_file_and_must_be_in_one(tmp_path):
    write_preprocessor(tmp_path)
    table = json.loads((tmp_path / "preprocessor_config.json").read_text("utf-8"))
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(FolderError, match=r"has no preprocessor_config\.json"):
        FAMILIES["clip"].with_other_files(ConvertedConfig(config=CONFIG), tmp_path)
    content = {"image_processor": {**table, "resample": 2}, "processor_class": "CLIPProcessor"}
    (tmp_path / "processor_config.json").write_text(json.dumps(content), "utf-8")
    found = FAMILIES["clip"].with_other_files(ConvertedConfig(config=CONFIG), tmp_path).config
    assert found.resampling == "bilinear"


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_a_model_comes_back_from_its_folder(tmp_path, case):
    family, loaded = case.partition(",")[0], random_model(CASES[case])
    again = through_folder(loaded, family, tmp_path)
    assert again.unused == ()
    ours, theirs = loaded.model.state_dict(), again.loaded.model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert to_huggingface(loaded).family == family


def test_the_tensors_of_a_file():
    found = shapes("clip", CONFIG)
    assert found["logit_scale"] == ()
    assert found["vision_model.embeddings.patch_embedding.weight"] == (16, 3, 4, 4)
    assert found["vision_model.embeddings.position_embedding.weight"] == (10, 16)
    assert found["text_projection.weight"] == (10, 12)
    assert len(found) == 1 + 2 + 2 * 16 + 2 + 1 + 3 + 2 + 3 * 16 + 2 + 1


def test_a_model_of_other_towers_is_another_family():
    for family, case in (("clip", "clip_text_model"), ("clip_vision_model", "clip")):
        with pytest.raises(FolderError, match=f"is not a {family} model"):
            to_huggingface(random_model(CASES[case]), family)


def test_weights_of_the_other_tower_are_reported(tmp_path):
    """As of a folder of both towers whose config.json is that of one."""
    clip(tmp_path / "both")
    clip(tmp_path / "text", "text")
    (tmp_path / "both" / "config.json").write_bytes((tmp_path / "text" / "config.json").read_bytes())
    found = load_pretrained(tmp_path / "both")
    assert "logit_scale" in found.unused
    assert "visual_projection.weight" in found.unused
    assert found.loaded.model.image is None
    assert all(not name.startswith("text") for name in found.unused)
