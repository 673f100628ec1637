import dataclasses
import json

import pytest
import torch

from regard.errors import FolderError
from regard.models.vision import VisionConfig
from regard.weights.families.family import ConvertedConfig
from regard.weights.pretrained import FAMILIES, to_huggingface
from tests.weights.families.conversion import (
    converted,
    outputs,
    random_model,
    refused,
    shapes,
    through_folder,
    without,
)

CLASS = {"architectures": ["ViTForImageClassification"]}
TABLE = {
    **CLASS,
    "image_size": 6,
    "num_channels": 2,
    "patch_size": 3,
    "hidden_size": 8,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "intermediate_size": 7,
    "hidden_act": "relu",
    "layer_norm_eps": 1e-4,
    "hidden_dropout_prob": 0.2,
    "attention_probs_dropout_prob": 0.3,
    "id2label": {"0": "cat", "1": "dog", "2": "bird"},
}
CONFIG = VisionConfig(
    num_labels=3,
    image_size=6,
    channels=2,
    patch_size=3,
    d_model=8,
    num_heads=4,
    num_layers=3,
    d_ff=7,
    activation="relu",
    norm_eps=1e-4,
    dropout=0.2,
    attention_dropout=0.3,
)
LABELS = ("cat", "dog", "bird")
SMALL = dataclasses.replace(CONFIG, d_model=4, num_heads=2, num_layers=1, pixel_mean=0.25, pixel_std=0.125)
FAMILY = FAMILIES["vit"]


def scaled(folder, **preprocessor):
    """The mean and the deviation of pixels, with this preprocessor_config.json."""
    (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor), "utf-8")
    found = FAMILY.with_other_files(ConvertedConfig(config=CONFIG), folder).config
    assert isinstance(found, VisionConfig)
    return found.pixel_mean, found.pixel_std


def test_each_setting_is_one_of_ours():
    found = converted("vit", TABLE)
    assert (found.config, found.labels) == (CONFIG, LABELS)
    assert converted("vit", FAMILY.write(CONFIG, LABELS)) == found


def test_a_setting_that_is_missing_is_that_of_vit_base():
    found = converted("vit", CLASS)
    assert found.labels == ("LABEL_0", "LABEL_1")
    assert found.config == VisionConfig(
        num_labels=2,
        image_size=224,
        channels=3,
        patch_size=16,
        d_model=768,
        num_heads=12,
        num_layers=12,
        d_ff=3072,
        activation="gelu",
        norm_eps=1e-12,
        dropout=0.0,
        attention_dropout=0.0,
    )
    written = FAMILY.write(dataclasses.replace(CONFIG, norm_eps=None), ())
    assert written["layer_norm_eps"] == pytest.approx(1e-5)


def test_classes_are_written_with_names_or_numbers():
    for labels, names in ((LABELS, LABELS), ((), ("LABEL_0", "LABEL_1", "LABEL_2"))):
        written = FAMILY.write(CONFIG, labels)
        assert written["id2label"] == dict(zip("012", names, strict=True))
        assert written["label2id"] == dict(zip(names, (0, 1, 2), strict=True))


def test_what_would_change_the_output_is_refused():
    refused("vit", {**TABLE, "qkv_bias": False}, "qkv_bias = False is not supported", "only True is")
    refused("vit", {**TABLE, "architectures": ["ViTModel"]}, "ViTModel has no classes")
    refused("vit", without(TABLE, "architectures"), "the model has no classes")
    refused("vit", {**TABLE, "hidden_act": "mish"}, "hidden_act = 'mish' is not supported")


def test_what_changes_no_output_is_accepted():
    idle = dict.fromkeys(("encoder_stride", "pooler_output_size", "pooler_act", "is_decoder"), 1)
    assert converted("vit", TABLE | idle | {"qkv_bias": True}).config == CONFIG


def test_the_file_has_the_tensors_of_transformers():
    embeddings, block = "vit.embeddings", "vit.encoder.layer.0"
    dense = {f"{block}.attention.attention.{each}": (4, 4) for each in ("query", "key", "value")}
    dense |= {
        f"{block}.attention.output.dense": (4, 4),
        f"{block}.intermediate.dense": (7, 4),
        f"{block}.output.dense": (4, 7),
        "classifier": (3, 4),
        f"{embeddings}.patch_embeddings.projection": (4, 2, 3, 3),
    }
    norms = (f"{block}.layernorm_before", f"{block}.layernorm_after", "vit.layernorm")
    assert shapes("vit", SMALL) == {
        f"{embeddings}.cls_token": (1, 1, 4),
        f"{embeddings}.position_embeddings": (1, 5, 4),
        **{f"{name}.weight": shape for name, shape in dense.items()},
        **{f"{name}.bias": shape[:1] for name, shape in dense.items()},
        **{f"{name}.{part}": (4,) for name in norms for part in ("weight", "bias")},
    }


def test_a_model_comes_back_from_a_folder_with_the_scale_of_its_pixels(tmp_path):
    loaded = random_model(SMALL, LABELS)
    again = through_folder(loaded, "vit", tmp_path).loaded
    assert (again.config, again.labels) == (SMALL, LABELS)
    assert torch.equal(outputs(again), outputs(loaded))
    written = json.loads((tmp_path / "vit" / "preprocessor_config.json").read_text("utf-8"))
    assert {"do_resize", "do_rescale", "do_normalize"} <= {key for key in written if written[key] is True}
    assert written["size"] == {"height": 6, "width": 6}
    assert written["image_mean"] == [0.25, 0.25]
    assert written["image_std"] == [0.125, 0.125]


def test_pixels_are_multiplied_and_then_normalised(tmp_path):
    """(pixels - mean) / deviation of ours is (255 pixels * factor - mean) / deviation of transformers."""
    without_file = FAMILY.with_other_files(ConvertedConfig(config=CONFIG), tmp_path).config
    assert without_file == CONFIG
    for settings, wanted in (
        ({}, (0.5, 0.5)),
        ({"image_mean": [0.25, 0.25], "image_std": 2}, (0.25, 2.0)),
        ({"do_normalize": False}, (0.0, 1.0)),
        ({"do_normalize": False, "image_mean": 3.0}, (0.0, 1.0)),
        ({"rescale_factor": 2 / 255, "image_mean": 0.5, "image_std": 3.0}, (0.25, 1.5)),
        ({"do_rescale": False, "image_mean": 51.0, "image_std": 255.0}, (0.2, 1.0)),
        ({"do_rescale": False, "rescale_factor": 7.0, "do_normalize": False}, (0.0, 1 / 255)),
    ):
        assert scaled(tmp_path, **settings) == pytest.approx(wanted), settings


@pytest.mark.parametrize(
    "settings",
    [
        {"rescale_factor": 0.0},
        {"rescale_factor": -1.0},
        {"image_std": 0.0},
        {"image_std": -1.0},
        {"image_mean": 1e300, "rescale_factor": 1e-300},
        {"image_mean": 0.0, "image_std": 1e300, "rescale_factor": 1e-300},
        {"image_mean": 10**400},
        {"image_std": -(10**400)},
    ],
    ids=str,
)
def test_a_scale_that_is_none_is_refused(settings, tmp_path):
    with pytest.raises(
        FolderError, match=r"cannot scale pixels|image_(mean|std) is an integer of 1,329 bits"
    ):
        scaled(tmp_path, **settings)


def test_channels_may_have_scales_of_their_own(tmp_path):
    assert scaled(tmp_path, image_mean=[0.5, 0.25], image_std=[0.5, 0.5]) == ((0.5, 0.25), 0.5)
    assert scaled(tmp_path, image_mean=[0.5], image_std=[0.5, 0.25]) == (0.5, (0.5, 0.25))
    loaded = random_model(dataclasses.replace(SMALL, pixel_mean=(0.5, 0.25), pixel_std=(0.25, 0.125)), LABELS)
    again = through_folder(loaded, "vit", tmp_path).loaded.config
    assert (again.pixel_mean, again.pixel_std) == ((0.5, 0.25), (0.25, 0.125))


@pytest.mark.parametrize("value", [[0.5, 0.4, 0.3], [], ["0.5"], [True], "0.5"], ids=str)
def test_channels_have_one_scale_or_one_each(value, tmp_path):
    with pytest.raises(FolderError, match=r"image_mean = .* is not supported"):
        scaled(tmp_path, image_mean=value)


@pytest.mark.parametrize(
    ("distillation", "heads"),
    [
        ("token", {"classifier.weight": (3, 4), "classifier.bias": (3,)}),
        (
            "head",
            {
                f"{name}_classifier.{part}": shape
                for name in ("cls", "distillation")
                for part, shape in (("weight", (3, 4)), ("bias", (3,)))
            },
        ),
    ],
)
def test_deit_has_a_distillation_token(distillation, heads, tmp_path):
    config = dataclasses.replace(SMALL, distillation=distillation)
    found = shapes("deit", config)
    assert {name: shape for name, shape in found.items() if not name.startswith("deit.")} == heads
    assert found["deit.embeddings.distillation_token"] == (1, 1, 4)
    assert found["deit.embeddings.position_embeddings"] == (1, 6, 4)
    loaded = random_model(config, LABELS)
    again = through_folder(loaded, "deit", tmp_path).loaded
    assert (again.config, again.labels) == (config, LABELS)
    assert torch.equal(outputs(again), outputs(loaded))
    assert to_huggingface(loaded).family == "deit"  # the first that fits
    with pytest.raises(FolderError, match=f"distillation = '{distillation}', but a vit model has None"):
        to_huggingface(loaded, "vit")


def test_a_vit_is_not_a_deit_and_a_deit_needs_classes():
    with pytest.raises(FolderError, match="distillation = None, but a deit model has 'token'"):
        to_huggingface(random_model(SMALL, LABELS), "deit")
    refused(
        "deit", TABLE, "ViTForImageClassification has no classes", "DeiTForImageClassificationWithTeacher"
    )
    refused("deit", {**TABLE, "architectures": ["DeiTModel"]}, "DeiTModel has no classes")
    teacher = {**TABLE, "architectures": ["DeiTForImageClassificationWithTeacher"]}
    assert converted("deit", teacher).config == dataclasses.replace(CONFIG, distillation="head")


@pytest.mark.parametrize(("family", "name"), [("vit", "ViTImageProcessor"), ("deit", "DeiTImageProcessor")])
def test_the_images_that_are_written_are_those_of_the_family_s_own_processor(family, name):
    (content,) = FAMILIES[family].other_files(dataclasses.replace(CONFIG, channels=3)).values()
    assert json.loads(content)["image_processor_type"] == name
