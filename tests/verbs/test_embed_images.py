"""Images are embedded by CLIP as by transformers: resized, cropped and scaled by its image processor."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.errors import DataError, FolderError
from regard.verbs.convert import convert
from regard.verbs.embed import Embedder
from regard.verbs.embed_images import IMAGES_PER_BATCH, ImageEmbedder, embed_images
from tests.clip_folder import clip, write_preprocessor
from tests.nightly import each_once

TEXTS = ["a photo of a cat", "a photo of a dog", "  Of 12 DOGS, and of a horse!", "", "cat " * 9]
SETTINGS = [
    {},
    {"size": {"shortest_edge": 17}},
    {"size": 12, "crop_size": 12},
    {"size": {"height": 14, "width": 14}},
    {"size": {"shortest_edge": 9}},  # smaller than the crop: black around it
    {"do_resize": False},
    {"do_center_crop": False, "size": {"height": 12, "width": 12}},
    {"resample": 2},
    {"do_normalize": False},
    {"do_rescale": False, "image_mean": [100.0, 120.0, 90.0], "image_std": [60.0, 50.0, 70.0]},
    {"image_mean": 0.5, "image_std": 0.25, "rescale_factor": 0.01},
]


def photos(*size, count=3, channels=3):
    return np.random.default_rng(1).integers(0, 256, (count, channels, *size), dtype=np.uint8)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The folder of a CLIP, and the model of transformers."""
    folder = tmp_path_factory.mktemp("clip") / "both"
    return folder, clip(folder)


def processor(folder):
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    return CLIPImageProcessorPil.from_pretrained(folder)


def vectors_of(model, images):
    return torch.stack([each.vector for each in ImageEmbedder(model, device="cpu")(images)])


@pytest.mark.parametrize(("settings", "size"), each_once(SETTINGS, [(12, 12), (30, 19), (13, 41)]), ids=str)
@torch.no_grad()
def test_images_are_read_as_by_the_image_processor_of_transformers(pair, tmp_path, settings, size):
    pytest.importorskip("PIL")
    folder, theirs = pair
    write_preprocessor(folder, **settings)
    images = photos(*size)
    read = processor(folder)(images=list(images), input_data_format="channels_first", return_tensors="pt")
    wanted = F.normalize(theirs.get_image_features(**read).pooler_output, dim=-1)
    torch.testing.assert_close(vectors_of(folder, images), wanted, rtol=1e-5, atol=1e-5)
    convert(folder, out=tmp_path / "ours")
    convert(tmp_path / "ours", out=tmp_path / "back", to="hf")
    for model in (tmp_path / "ours", tmp_path / "back"):
        torch.testing.assert_close(vectors_of(model, images), wanted, rtol=1e-5, atol=1e-5)
    again = processor(tmp_path / "back")(
        images=list(images), input_data_format="channels_first", return_tensors="pt"
    )
    torch.testing.assert_close(again["pixel_values"], read["pixel_values"], rtol=1e-5, atol=1e-5)
    write_preprocessor(folder)


@torch.no_grad()
def test_a_grey_image_has_three_equal_channels_as_there(pair):
    pillow = pytest.importorskip("PIL.Image")
    folder, theirs = pair
    images = photos(20, 15, channels=1)
    read = processor(folder)(images=[pillow.fromarray(each[0]) for each in images], return_tensors="pt")
    wanted = F.normalize(theirs.get_image_features(**read).pooler_output, dim=-1)
    torch.testing.assert_close(vectors_of(folder, images), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["both", "text"])
@torch.no_grad()
def test_texts_are_embedded_as_there(tmp_path, kind, capsys):
    from transformers import CLIPTokenizer

    theirs = clip(tmp_path / "theirs", kind)
    tokenizer = CLIPTokenizer.from_pretrained(tmp_path / "theirs")
    read = tokenizer(TEXTS, padding=True, truncation=True, max_length=11, return_tensors="pt")
    found = theirs.get_text_features(**read).pooler_output if kind == "both" else theirs(**read).text_embeds
    convert(tmp_path / "theirs", out=tmp_path / "ours")
    convert(tmp_path / "ours", out=tmp_path / "back", to="hf")
    for model in ("theirs", "ours", "back"):
        ours = regard.embed(TEXTS, model=tmp_path / model, device="cpu")
        torch.testing.assert_close(ours, F.normalize(found, dim=-1), rtol=1e-5, atol=1e-5)
        warned = " ".join(capsys.readouterr().err.split())
        assert "line 5 is too long (11 tokens" not in warned
        assert "line 3 is too long" in warned  # its pieces are single letters
    auto = CLIPTokenizer.from_pretrained(tmp_path / "back")
    assert auto(TEXTS[0]).input_ids == tokenizer(TEXTS[0]).input_ids


def test_an_image_does_not_depend_on_its_batch(pair):
    images = photos(12, 12, count=IMAGES_PER_BATCH + 2)
    together = vectors_of(pair[0], images)
    for row in (0, IMAGES_PER_BATCH - 1, IMAGES_PER_BATCH + 1):
        torch.testing.assert_close(vectors_of(pair[0], images[[row]])[0], together[row], rtol=1e-5, atol=1e-6)
    assert [each.image for each in ImageEmbedder(pair[0])(images)] == list(range(1, len(images) + 1))


def test_images_are_ranked_by_a_text(pair):
    embedder, images = ImageEmbedder(pair[0], device="cpu"), photos(14, 12, count=5)
    found = embedder.similar(embedder(images), "a photo of a cat")
    cosines = vectors_of(pair[0], images) @ regard.embed("a photo of a cat", model=pair[0], device="cpu")
    assert [each.image for each in found] == [number + 1 for number in cosines.argsort(descending=True)]
    assert [each.similarity for each in found] == pytest.approx(cosines.sort(descending=True).values.tolist())


def test_the_call_reads_files_and_arrays(pair, tmp_path):
    images = photos(14, 12)
    np.savez(tmp_path / "images.npz", images=images.transpose(0, 2, 3, 1))
    found = embed_images(tmp_path / "images.npz", model=pair[0], device="cpu")
    torch.testing.assert_close(found, vectors_of(pair[0], images), rtol=0, atol=0)
    torch.testing.assert_close(embed_images(images, model=pair[0], device="cpu"), found, rtol=0, atol=0)
    torch.testing.assert_close(found.norm(dim=1), torch.ones(3))


def test_images_that_do_not_fit_are_refused(pair):
    with pytest.raises(DataError, match="images of 4 channels, but the model reads 3"):
        embed_images(photos(12, 12, channels=4), model=pair[0])
    for wrong in (photos(12, 12) / np.float32(255), photos(12, 12)[0]):
        with pytest.raises(DataError, match="is not an array of images"):
            next(ImageEmbedder(pair[0])(wrong))
    for size in ((1, 101), (101, 1), (0, 5)):
        with pytest.raises(DataError, match="are too narrow"):
            embed_images(photos(*size), model=pair[0])
    assert embed_images(photos(1, 100), model=pair[0]).shape == (3, 10)
    write_preprocessor(pair[0], do_center_crop=False)
    with pytest.raises(
        DataError, match="images of 12 x 20 pixels in 3 channels, but the model reads 12 x 12"
    ):
        embed_images(photos(12, 20), model=pair[0])
    write_preprocessor(pair[0])


def test_a_missing_tower_is_named(tmp_path, untrained):
    clip(tmp_path / "text", "text")
    clip(tmp_path / "images", "images")
    with pytest.raises(FolderError, match="it has no image tower") as caught:
        embed_images(photos(12, 12), model=tmp_path / "text")
    assert "regard embed --model" in caught.value.hint
    with pytest.raises(FolderError, match="it has no text tower") as caught:
        Embedder(tmp_path / "images")
    assert "--images" in caught.value.hint
    embedder = ImageEmbedder(tmp_path / "images")
    with pytest.raises(FolderError, match="it has no text tower"):
        embedder.similar(embedder(photos(12, 12)), "a cat")
    with pytest.raises(FolderError, match="not a model that embeds images"):
        embed_images(photos(12, 12), model=untrained)


def test_a_folder_of_images_alone_needs_no_tokeniser(tmp_path):
    clip(tmp_path / "theirs", "images")
    convert(tmp_path / "theirs", out=tmp_path / "ours")
    assert not (tmp_path / "ours" / "tokenizer.json").exists()
    assert embed_images(photos(12, 12), model=tmp_path / "ours").shape == (3, 10)
