"""What the image-text model keeps to: its towers, the end of a text, and what it refuses."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from regard.errors import ConfigError
from regard.models.build import build_model, count_config_parameters, count_parameters
from regard.models.image_text import ImageText, ImageTextConfig

CONFIG = ImageTextConfig(
    d_model=10, vocab_size=23, d_text=12, text_heads=3, d_ff_text=17, text_layers=2, max_positions=7,
    end_id=20, image_size=12, patch_size=4, d_image=16, image_heads=2, d_ff_image=19, image_layers=2,
)  # fmt: skip
IDS = torch.tensor([[21, 3, 5, 20, 9, 20], [21, 20, 1, 1, 1, 1]])
LENGTHS = torch.tensor([4, 2])
IMAGES = torch.randn(3, 3, 12, 12, generator=torch.Generator().manual_seed(0))


def made(**changes) -> ImageText:
    model = build_model(dataclasses.replace(CONFIG, **changes), seed=0)
    assert isinstance(model, ImageText)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


@torch.no_grad()
def test_logits_are_scaled_cosines():
    model = made()
    texts, images = model.text_features(IDS, LENGTHS), model.image_features(IMAGES)
    cosines = F.cosine_similarity(texts[:, None], images[None], dim=-1)
    torch.testing.assert_close(model(IDS, LENGTHS, IMAGES), cosines * model.logit_scale.exp())


@torch.no_grad()
def test_a_text_is_read_up_to_its_end_and_its_beginning_counts():
    model = made()
    whole = model.text_features(IDS, LENGTHS)
    for place, matters in ((1, True), (2, True), (4, False), (5, False)):
        changed = IDS.clone()
        changed[0, place] = 7
        assert torch.allclose(model.text_features(changed, LENGTHS)[0], whole[0]) != matters


@torch.no_grad()
def test_without_an_end_token_the_highest_id_of_the_text_is_its_end():
    model, other = made(end_id=None), made(end_id=21)
    torch.testing.assert_close(model.text_features(IDS, LENGTHS), other.text_features(IDS, LENGTHS))
    padded = IDS.where(torch.arange(6) < LENGTHS[:, None], 22)  # padding does not count
    torch.testing.assert_close(model.text_features(padded, LENGTHS), model.text_features(IDS, LENGTHS))


@torch.no_grad()
def test_each_part_of_an_image_counts():
    model = made()
    whole = model.image_features(IMAGES)
    for row in range(0, 12, 4):
        for column in range(0, 12, 4):
            changed = IMAGES.clone()
            changed[0, 1, row, column] += 1
            found = model.image_features(changed)
            assert not torch.allclose(found[0], whole[0])
            torch.testing.assert_close(found[1:], whole[1:])


def test_one_tower_has_no_scale_and_may_have_no_projection():
    text, image = made(image_size=None), made(vocab_size=None, end_id=None)
    assert {name.partition(".")[0] for name in text.state_dict()} == {"text", "text_projection"}
    assert {name.partition(".")[0] for name in image.state_dict()} == {"image", "image_projection"}
    bare = made(image_size=None, projection=False, d_model=12)
    assert {name.partition(".")[0] for name in bare.state_dict()} == {"text"}
    assert bare.text_features(IDS, LENGTHS).shape == (2, 12)
    for call in (lambda: text.image_features(IMAGES), lambda: image.text_features(IDS, LENGTHS)):
        with pytest.raises(ValueError, match=r"has no (text|image) tower"):
            call()
    with pytest.raises(ValueError, match="one tower only"):
        text.logits(torch.ones(1, 10), torch.ones(1, 10))


def test_the_sizes_of_clip_vit_b_32():
    """Radford et al. 2021: 63M parameters of text, 86M of images, and the projections."""
    config = ImageTextConfig(vocab_size=49408, end_id=49407, image_size=224)
    assert count_config_parameters(config) == 151_277_313
    assert count_config_parameters(CONFIG) == count_parameters(made())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": None, "image_size": None}, "without towers"),
        ({"end_id": 23}, "end_id = 23 is not a token id"),
        ({"image_size": 14}, "patch_size = 4 does not divide image_size = 14"),
        ({"pixel_mean": (0.1, 0.2)}, "pixel_mean has 2 numbers for 3 channels"),
        ({"pixel_std": 0.0}, "pixel_std = 0.0 is out of range"),
        ({"projection": False}, "projection = false, but d_model = 10"),
        ({"projection": False, "image_size": None}, "projection = false, but d_model = 10"),
        ({"text_heads": 5}, r"d_model \(12\) must be divisible by num_heads \(5\)"),
        ({"image_layers": 0}, "image_layers = 0 is too small"),
        ({"resized_size": 0}, "resized_size = 0 is too small"),
        ({"image_attention_dropout": 1.0}, "attention_dropout = 1.0 is out of range"),
    ],
)
def test_settings_that_are_not_possible_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(CONFIG, **changes)
