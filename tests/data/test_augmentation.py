"""Image augmentation: bounded, in the right direction, dependent on (seed, example) alone."""

import numpy as np
import pytest
import torch

from regard.data.augmentation import AugmentationSettings, augmented, uniform
from regard.errors import RecipeError

PICTURE = torch.randn(1, 2, 8, 8, generator=torch.Generator().manual_seed(0))
MIDDLE, MOST, LEAST = 0.5, 1.0, 0.0


def move(random_numbers: list[float], **settings: float) -> torch.Tensor:
    return augmented(PICTURE, torch.tensor([random_numbers]), AugmentationSettings(**settings))


def test_no_change_leaves_the_images_as_they_are():
    found = move([MIDDLE] * 4, shift=3.0, rotation=90.0, scale=0.5)
    torch.testing.assert_close(found, PICTURE, atol=1e-5, rtol=0)
    torch.testing.assert_close(move([0.9, 0.1, 0.3, 0.7]), PICTURE, atol=1e-5, rtol=0)


def test_a_shift_is_in_pixels_and_at_most_what_is_allowed():
    right = move([MIDDLE, MIDDLE, LEAST, MIDDLE], shift=2.0)
    torch.testing.assert_close(right[..., 2:], PICTURE[..., :-2], atol=1e-5, rtol=0)
    up = move([MIDDLE, MIDDLE, MIDDLE, MOST], shift=3.0)
    torch.testing.assert_close(up[..., :-3, :], PICTURE[..., 3:, :], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("draw", "turns"), [(MOST, 1), (LEAST, -1)])
def test_a_rotation_is_in_degrees(draw, turns):
    turned = move([draw, MIDDLE, MIDDLE, MIDDLE], rotation=90.0)
    torch.testing.assert_close(turned, PICTURE.rot90(turns, (2, 3)), atol=1e-5, rtol=0)


def test_a_turn_keeps_the_shape_of_what_is_not_square():
    """A disc stays a disc in a wide image."""
    rows, columns = torch.meshgrid(torch.arange(9.0) - 4, torch.arange(21.0) - 10, indexing="ij")
    disc = ((rows**2 + columns**2) < 9).float()[None, None]
    turned = augmented(disc, torch.tensor([[1.0, 0.5, 0.5, 0.5]]), AugmentationSettings(rotation=90.0))
    torch.testing.assert_close(turned, disc, atol=1e-4, rtol=0)


def test_larger_is_larger():
    dot = torch.zeros(1, 1, 9, 9)
    dot[..., 3:6, 3:6] = 1
    settings = AugmentationSettings(scale=0.5)
    larger = augmented(dot, torch.tensor([[0.5, 1.0, 0.5, 0.5]]), settings)
    smaller = augmented(dot, torch.tensor([[0.5, 0.0, 0.5, 0.5]]), settings)
    assert smaller.sum() < dot.sum() < larger.sum()


def test_random_numbers_are_uniform_and_independent():
    random_numbers = uniform(7, np.arange(20_000), 4)
    assert 0 <= random_numbers.min() < 0.001
    assert 0.999 < random_numbers.max() < 1
    assert np.abs(random_numbers.mean(axis=0) - 0.5).max() < 0.01
    assert np.abs(random_numbers.var(axis=0) - 1 / 12).max() < 0.002
    together = np.concatenate([random_numbers[:-1], random_numbers[1:]], axis=1)
    assert np.abs(np.corrcoef(together.T) - np.eye(8)).max() < 0.03


def test_the_noise_of_an_example_does_not_depend_on_its_batch():
    alone = uniform(7, np.array([12]), 4)
    assert np.array_equal(uniform(7, np.array([3, 12, 5]), 4)[1:2], alone)
    assert not np.array_equal(uniform(8, np.array([12]), 4), alone)


@pytest.mark.parametrize("setting", [{"shift": -1.0}, {"rotation": 181.0}, {"scale": 1.0}])
def test_a_bound_that_means_nothing_is_refused(setting):
    with pytest.raises(RecipeError, match=f"augmentation.{next(iter(setting))}"):
        AugmentationSettings(**setting)
