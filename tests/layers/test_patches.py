"""Patches are what a strided convolution reads; positions of a grid stay where they are, or stretch."""

import pytest
import torch
import torch.nn.functional as F

from regard.layers.patches import GridPositions, PatchEmbedding, patches


def images(channels=3, height=6, width=9):
    return torch.randn(2, channels, height, width, generator=torch.Generator().manual_seed(0))


def test_patches_are_cut_row_by_row():
    grid = torch.arange(36.0).view(1, 1, 6, 6)
    assert patches(grid, 3)[0, 1].tolist() == [3, 4, 5, 9, 10, 11, 15, 16, 17]
    assert patches(grid, 3)[0, 2, 0] == 18


def test_every_pixel_of_every_channel_is_in_one_patch():
    pixels = images()
    assert torch.equal(patches(pixels, 3).flatten().sort().values, pixels.flatten().sort().values)


def test_the_embedding_is_a_strided_convolution():
    embedding, pixels = PatchEmbedding(3, 3, 8), images()
    weight = embedding.projection.weight.view(8, 3, 3, 3)
    convolved = F.conv2d(pixels, weight, embedding.projection.bias, stride=3)
    torch.testing.assert_close(embedding(pixels), convolved.flatten(2).transpose(1, 2))


def test_without_a_bias_it_is_a_convolution_without_one():
    embedding, pixels = PatchEmbedding(3, 3, 8, bias=False), images()
    assert [name for name, _ in embedding.named_parameters()] == ["projection.weight"]
    convolved = F.conv2d(pixels, embedding.projection.weight.view(8, 3, 3, 3), stride=3)
    torch.testing.assert_close(embedding(pixels), convolved.flatten(2).transpose(1, 2))


@pytest.mark.parametrize("size", [(3, 7), (7, 3), (3, 0), (0, 3)])
def test_an_image_that_patches_do_not_fill_is_refused(size):
    with pytest.raises(ValueError, match=f"{size[0]} x {size[1]} pixels"):
        patches(torch.zeros(1, 1, *size), 3)


def test_positions_of_the_same_grid_are_the_learned_ones():
    positions = GridPositions(8, 2, 3, before=1)
    assert torch.equal(positions(2, 3), positions.weight)


def test_positions_of_another_grid_keep_what_stands_before_it():
    positions = GridPositions(8, 2, 3, before=2)
    stretched = positions(5, 4)
    assert stretched.shape == (2 + 20, 8)
    assert torch.equal(stretched[:2], positions.weight[:2])


def test_interpolation_of_a_constant_is_that_constant():
    positions = GridPositions(8, 3, 3)
    with torch.no_grad():
        positions.weight[:] = torch.arange(8.0)
    torch.testing.assert_close(positions(7, 5), torch.arange(8.0).expand(35, 8))


def test_interpolation_keeps_up_and_down_apart_from_left_and_right():
    """Rows that differ and columns that do not stay so: a transposed grid would show."""
    positions = GridPositions(1, 4, 4)
    with torch.no_grad():
        positions.weight[:] = torch.arange(4.0).repeat_interleave(4)[:, None]
    grid = positions(8, 6).view(8, 6)
    torch.testing.assert_close(grid, grid[:, :1].expand(8, 6))
    assert (grid[1:, 0] > grid[:-1, 0]).all()


def test_gradients_flow_through_interpolation():
    positions = GridPositions(4, 2, 2, before=1)
    positions(4, 4).square().sum().backward()
    assert positions.weight.grad is not None
    assert positions.weight.grad.all()
