"""Photographs reach a model as by the image processors of transformers, from files, Pillow and arrays."""

import json

import numpy as np
import pytest
import torch

import regard
from regard.errors import DataError
from regard.models.vision import VisionConfig
from regard.verbs.classify_images import ImageClassifier, classify_images
from regard.verbs.embed_images import ImageEmbedder
from regard.verbs.look import look
from regard.verbs.shared.model_images import image_batches
from regard.weights.families.family import ConvertedConfig
from regard.weights.pretrained import FAMILIES
from tests.clip_folder import clip

pillow = pytest.importorskip("PIL.Image")
PROCESSORS = [
    ("vit", "ViTImageProcessor", {}),
    ("vit", "ViTImageProcessor", {"size": {"height": 12, "width": 12}, "resample": 3}),
    ("vit", "ViTImageProcessor", {"do_normalize": False, "size": {"shortest_edge": 15},
                                  "do_center_crop": True, "crop_size": {"height": 12, "width": 12}}),
    ("vit", "DeiTImageProcessor", {"size": 14, "crop_size": 12}),
    ("deit", "DeiTImageProcessor", {"size": {"height": 15, "width": 15},
                                    "crop_size": {"height": 12, "width": 12}}),
    ("deit", "DeiTImageProcessor", {"size": {"height": 12, "width": 12}, "do_center_crop": False,
                                    "resample": 2, "image_mean": [0.4, 0.5, 0.6]}),
]  # fmt: skip
SIZES = [(40, 31), (13, 50), (12, 12), (300, 200)]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Files of several sizes and kinds, one of them turned by its orientation."""
    folder = tmp_path_factory.mktemp("photos")
    for number, (size, kind) in enumerate(zip(SIZES, ("jpg", "png", "webp", "jpg"), strict=True)):
        pixels = np.random.default_rng(number).integers(0, 256, (*size, 3), dtype=np.uint8)
        exif = pillow.Exif()
        exif[0x0112] = 6 if number == 3 else 1
        pillow.fromarray(pixels).save(folder / f"{number}.{kind}", exif=exif)
    (folder / "in").mkdir()
    pillow.new("L", (9, 14), 77).save(folder / "in" / "grey.png")
    return folder


def processor_of(name):
    from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    return {"ViTImageProcessor": ViTImageProcessorPil, "DeiTImageProcessor": DeiTImageProcessorPil}[name]


@pytest.mark.parametrize(("family", "name", "settings"), PROCESSORS, ids=str)
def test_files_are_read_as_by_the_image_processor_of_the_family(photos, tmp_path, family, name, settings):
    from transformers.image_utils import load_image

    config = VisionConfig(num_labels=2, image_size=12, patch_size=4)
    table = {"image_processor_type": name, **settings}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(table), "utf-8")
    found = FAMILIES[family].with_other_files(ConvertedConfig(config=config), tmp_path).config
    assert isinstance(found, VisionConfig)
    files = [str(photos / each) for each in ("0.jpg", "1.png", "2.webp", "3.jpg", "in/grey.png")]
    [(named, ours)] = image_batches(found, files, "images", 9)
    assert named == files
    processor = processor_of(name)(**{"size": {"height": 12, "width": 12}, **settings})
    theirs = []
    for file in files:
        with pillow.open(file) as image:
            theirs.append(processor(load_image(image), return_tensors="pt")["pixel_values"])
    torch.testing.assert_close(ours, torch.cat(theirs), rtol=1e-6, atol=1e-6)
    scale = 255 * torch.tensor(found.pixel_std).view(-1, 1, 1)
    steps = (ours - torch.cat(theirs)) * scale  # in steps of 8 bits: 0 where the bytes are equal
    assert steps.abs().max() < 1e-3
    written = FAMILIES[family].other_files(found)["preprocessor_config.json"]
    (tmp_path / "preprocessor_config.json").write_bytes(written)
    assert FAMILIES[family].with_other_files(ConvertedConfig(config=config), tmp_path).config == found


@torch.no_grad()
def test_clip_reads_photographs_as_its_processor_does(photos, tmp_path):
    from transformers.image_utils import load_image
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    theirs = clip(tmp_path)
    embedder = ImageEmbedder(tmp_path, device="cpu")
    for file in (photos / "0.jpg", photos / "3.jpg"):
        with pillow.open(file) as image:
            read = CLIPImageProcessorPil.from_pretrained(tmp_path)(load_image(image), return_tensors="pt")
        [found] = embedder(file)
        wanted = torch.nn.functional.normalize(theirs.get_image_features(**read).pooler_output, dim=-1)
        torch.testing.assert_close(found.vector, wanted[0], rtol=1e-5, atol=1e-5)
        assert (found.image, found.file) == (1, str(file))
    ranked = embedder.similar(embedder(photos), "a photo of a cat")
    assert {each.file for each in ranked} == {each.file for each in embedder(photos)}
    assert ranked[0].to_dict()["file"] == ranked[0].file


def test_files_images_of_pillow_and_arrays_give_the_same_classes(photos, vision_folder):
    model, file = vision_folder(), photos / "0.jpg"
    with pillow.open(file) as image:
        pixels = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
        found = classify_images([file, str(file), image, pixels], model=model, top=3, device="cpu")
        alone = classify_images(image, model=model, top=3, device="cpu")
    once = classify_images(file, model=model, top=3, device="cpu")
    for each in found:
        assert dict(each) == pytest.approx(dict(once[0]), abs=1e-6)
    assert alone == once
    assert classify_images(pixels[None], model=model, top=3, device="cpu") == once
    assert regard.classify_images(file, model=regard.load(model)) == [once[0][0][0]]


def test_each_image_has_the_name_of_its_file(photos, vision_folder):
    model = vision_folder()
    classifier = ImageClassifier(model, device="cpu")
    names = ["0.jpg", "1.png", "2.webp", "3.jpg", "in/grey.png"]
    found = list(classifier(photos))
    assert [each.file for each in found] == [str(photos / name) for name in names]
    assert [each.line for each in found] == [1, 2, 3, 4, 5]
    array = model.parent / "images.npz"
    several = list(classifier([array, photos / "1.png"]))
    assert [each.file for each in several] == [
        *(f"{array}:{number}" for number in range(4)), str(photos / "1.png")
    ]  # fmt: skip
    assert [each.file for each in classifier.file(array)] == [None] * 4


def test_a_photo_is_shown_as_the_model_reads_it(photos, vision_folder):
    model, file = vision_folder(), photos / "3.jpg"
    found = look(str(file), model, device="cpu")
    assert np.asarray(found.get("image")).shape == (12, 12, 3)
    [answer] = classify_images(file, model=model, top=3, device="cpu")
    assert [each["label"] for each in found.summary["answer"]["labels"]] == [label for label, _ in answer]
    (photos.parent / "no.png").write_text("text")
    with pytest.raises(DataError, match="in spite of its name"):
        look(str(photos.parent / "no.png"), model)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([np.zeros((2, 3, 5, 5), np.uint8)], "image 1: an array of 4 dimensions is not one image"),
        (np.zeros((3, 5, 5), np.uint8), "images: an array of uint8 and 3 dimensions is not an array of"),
        ([np.zeros((3, 5, 5))], "image 1: an array of float64"),
        ([np.zeros((4, 5, 5), np.uint8)], "image 1: images of 4 channels, but the model reads 3"),
        (["nothing.jpg"], "no such file"),
        ([b"bytes"], "images must be|input must be"),
    ],
)
def test_what_is_no_image_is_refused_by_its_place(vision_folder, images, message):
    with pytest.raises(regard.UserError, match=message):
        classify_images(images, model=vision_folder())
