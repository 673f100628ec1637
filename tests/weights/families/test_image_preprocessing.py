"""How images are prepared: each setting of preprocessor_config.json, its default, and what is refused."""

import dataclasses
import json

import pytest

from regard.errors import FolderError
from regard.models.vision import VisionConfig
from regard.weights.families.family import ConfigReader
from regard.weights.families.image_preprocessing import (
    CLIP,
    DEIT,
    VIT,
    preprocessor_table,
    with_preprocessing,
)
from regard.weights.families.preprocessor import PREPROCESSOR, PROCESSOR, read_preprocessor

CONFIG = VisionConfig(
    num_labels=2, image_size=32, patch_size=8, d_model=8, num_heads=2, d_ff=8, num_layers=1,
    pixel_mean=0.1, pixel_std=0.9, resizing=None, resampling="bicubic", cropped=True, resized_size=99,
)  # fmt: skip
SQUARE = {"height": 32, "width": 32}
CROPPED = {"size": 32, "crop_size": 32}


def prepared(table, *processors, size=32, config=CONFIG):
    found = with_preprocessing(config, size, ConfigReader(table, "it"), *(processors or (VIT,)))
    return found.resizing, found.resized_size, found.resampling, found.cropped


@pytest.mark.parametrize(
    ("table", "processors", "size", "expected"),
    [
        ({}, (VIT,), 32, ("square", None, "bilinear", False)),
        ({}, (CLIP,), 224, ("shortest_edge", None, "bicubic", True)),
        ({}, (DEIT,), 224, ("square", 256, "bicubic", True)),
        ({"size": 32}, (VIT,), 32, ("square", None, "bilinear", False)),
        ({"size": SQUARE}, (VIT,), 32, ("square", None, "bilinear", False)),
        ({"size": {**SQUARE, "longest_edge": None}}, (VIT,), 32, ("square", None, "bilinear", False)),
        ({"size": 40, "crop_size": 32}, (DEIT,), 32, ("square", 40, "bicubic", True)),
        ({"size": 40, "crop_size": 32}, (CLIP,), 32, ("shortest_edge", 40, "bicubic", True)),
        ({"size": SQUARE, "crop_size": 32}, (CLIP,), 32, ("square", None, "bicubic", True)),
        ({**CROPPED, "size": {"shortest_edge": 32}}, (CLIP,), 32, ("shortest_edge", None, "bicubic", True)),
        ({"size": {"shortest_edge": 40}, "do_center_crop": True}, (VIT,), 32,
         ("shortest_edge", 40, "bilinear", True)),
        ({"do_center_crop": False, **CROPPED}, (DEIT,), 32, ("square", None, "bicubic", False)),
        ({"do_resize": False, "size": 7, "resample": 9}, (VIT,), 32, (None, None, "bilinear", False)),
        ({"do_resize": False, "crop_size": 32}, (CLIP,), 32, (None, None, "bilinear", True)),
        ({"resample": 3}, (VIT,), 32, ("square", None, "bicubic", False)),
        ({"resample": 2, **CROPPED}, (CLIP,), 32, ("shortest_edge", None, "bilinear", True)),
        ({"image_processor_type": "DeiTImageProcessor", "crop_size": 32}, (VIT, DEIT), 32,
         ("square", 256, "bicubic", True)),
        ({"feature_extractor_type": "DeiTFeatureExtractor", "crop_size": 32}, (VIT, DEIT), 32,
         ("square", 256, "bicubic", True)),
        ({"image_processor_type": "ViTImageProcessorPil"}, (DEIT, VIT), 32,
         ("square", None, "bilinear", False)),
        ({"do_convert_rgb": True, "data_format": "channels_first", "default_to_square": True, "do_pad": False,
          "use_square_size": False, "return_tensors": None, "_valid_processor_keys": ["a"]}, (VIT,), 32,
         ("square", None, "bilinear", False)),
    ],
    ids=lambda each: str(each) if isinstance(each, dict) else "",
)  # fmt: skip
def test_images_are_prepared_as_the_file_says_or_as_its_processor_does(table, processors, size, expected):
    assert prepared(table, *processors, size=size) == expected


@pytest.mark.parametrize(
    ("table", "processors", "message"),
    [
        ({"size": 0}, (VIT,), "size = 0 is not supported"),
        ({"size": -1}, (VIT,), "size = -1 is not supported"),
        ({"size": "32"}, (VIT,), "size = '32' is not supported"),
        ({"size": {"height": 32, "width": 33}}, (VIT,), "size = .* is not supported"),
        ({"size": {"height": 0, "width": 0}}, (VIT,), "size = .* is not supported"),
        ({"crop_size": 0}, (CLIP,), "crop_size = 0 is not supported"),
        ({"size": {**SQUARE, "longest_edge": 40}}, (VIT,), "size = .* is not supported"),
        ({"size": {"shortest_edge": 0}}, (VIT,), "size = .* is not supported"),
        ({"size": {"shortest_edge": 32, "longest_edge": 40}}, (VIT,), "size = .* is not supported"),
        ({"size": 33}, (VIT,), "size = 33, but config.json has image_size = 32"),
        ({"crop_size": 33}, (CLIP,), "crop_size = 33, but config.json has image_size = 32"),
        ({}, (CLIP,), "crop_size = 224, but config.json has image_size = 32"),
        ({"crop_size": {"height": 32}}, (CLIP,), "crop_size = .* is not supported"),
        ({"resample": 0}, (VIT,), "resample = 0 is not supported"),
        ({"resample": 4}, (VIT,), "resample = 4 is not supported"),
        ({"do_convert_rgb": False}, (VIT,), "do_convert_rgb = False is not supported"),
        ({"default_to_square": False}, (VIT,), "default_to_square = False is not supported"),
        ({"default_to_square": True}, (CLIP,), "default_to_square = True is not supported"),
        ({"use_square_size": True}, (VIT,), "use_square_size = True is not supported"),
        ({"do_pad": True}, (VIT,), "do_pad = True is not supported"),
        ({"data_format": "channels_last"}, (VIT,), "data_format = 'channels_last' is not supported"),
        ({"pad_size": 3}, (VIT,), "pad_size = 3 is not supported"),
        ({"device": "cuda"}, (VIT,), "device = 'cuda' is not supported"),
        ({"image_processor_type": "DeiTImageProcessor"}, (VIT,), "image_processor_type = .* is not"),
        ({"feature_extractor_type": "Other"}, (VIT,), "feature_extractor_type = 'Other' is not supported"),
        ({"a_new_setting": 1}, (VIT,), "the setting 'a_new_setting' is unknown"),
        ({"do_resize": 1}, (VIT,), "do_resize = 1 is not of type bool"),
    ],
    ids=lambda each: str(each) if isinstance(each, dict) else "",
)  # fmt: skip
def test_what_cannot_be_followed_is_refused(table, processors, message):
    with pytest.raises(FolderError, match=f"^it: {message}") as caught:
        prepared(table, *processors)
    assert caught.value.hint


def test_an_image_may_be_a_pixel():
    square = {"height": 1, "width": 1}
    for size in (1, square):
        assert prepared({"size": size}, VIT, size=1) == ("square", None, "bilinear", False)
        edge = {"size": {"shortest_edge": 1}, "crop_size": size}
        assert prepared(edge, CLIP, size=1) == ("shortest_edge", None, "bicubic", True)


def test_one_channel_is_no_colour():
    grey = dataclasses.replace(CONFIG, channels=1)
    assert prepared({"do_convert_rgb": False}, config=grey)[0] == "square"
    with pytest.raises(FolderError, match="do_convert_rgb"):
        prepared({"do_convert_rgb": True}, config=grey)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"resized_size": 40, "cropped": True},
        {"resizing": "shortest_edge", "resized_size": 40, "cropped": True, "resampling": "bicubic"},
        {"resizing": None, "cropped": True},
        {"channels": 1},
    ],
    ids=str,
)
def test_what_is_written_is_read_again(changes):
    plain = {"resizing": "square", "resized_size": None, "resampling": "bilinear", "cropped": False}
    config = dataclasses.replace(CONFIG, **{**plain, **changes})
    table = preprocessor_table(config, 32, VIT)
    assert with_preprocessing(config, 32, ConfigReader(table, "it"), VIT) == config
    assert table["image_processor_type"] == "ViTImageProcessor"


def test_the_settings_are_in_a_file_of_their_own_or_in_that_of_newer_folders(tmp_path):
    def names():
        return read_preprocessor(tmp_path, "image_processor").table

    def refused():
        with pytest.raises(FolderError, match=rf"has no {PREPROCESSOR}") as caught:
            names()
        assert caught.value.hint

    refused()
    for content in ({}, {"image_processor": None}, {"feature_extractor": {"a": 1}}):
        (tmp_path / PROCESSOR).write_text(json.dumps(content), "utf-8")
        refused()
    (tmp_path / PROCESSOR).write_text(json.dumps({"image_processor": {"a": 1}}), "utf-8")
    assert names() == {"a": 1}
    (tmp_path / PREPROCESSOR).write_text(json.dumps({"b": 2}), "utf-8")
    assert names() == {"b": 2}
    assert read_preprocessor(tmp_path, "feature_extractor").where == str(tmp_path / PREPROCESSOR)
