"""Frames become fewer: by stacking or by convolution, as many as they should, whatever the padding is."""

import pytest
import torch
import torch.nn.functional as F

from regard.layers.masks import real_positions
from regard.layers.subsampling import (
    ConvolutionalSubsampling,
    HalvingConvolutions,
    StackedFrames,
    shortened,
)

FRAMES = torch.randn(3, 13, 5, generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([13, 6, 1])
BOTH = pytest.mark.parametrize("kind", [StackedFrames, ConvolutionalSubsampling])


def make(kind: type, factor: int) -> torch.nn.Module:
    torch.manual_seed(0)
    return kind(5, 8, factor)


def test_what_is_begun_counts():
    lengths = torch.tensor([0, 1, 4, 5, 8, 9])
    assert shortened(lengths, 4).tolist() == [0, 1, 1, 2, 2, 3]
    assert torch.equal(shortened(shortened(lengths, 2), 2), shortened(lengths, 4))


@BOTH
@pytest.mark.parametrize("factor", [2, 4, 8])
def test_as_many_vectors_come_as_lengths_say(kind, factor):
    for length in range(1, 14):
        lengths = torch.tensor([length])
        found = make(kind, factor)(FRAMES[:1, :length], lengths)
        assert found.shape == (1, int(shortened(lengths, factor)), 8)


@BOTH
def test_padding_changes_nothing(kind):
    subsampling = make(kind, 4)
    dirty = FRAMES.where(real_positions(LENGTHS, 13)[:, :, None], 1e4)
    together = subsampling(torch.cat([dirty, dirty], dim=1), LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = subsampling(FRAMES[[row], :length], LENGTHS[[row]])[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, atol=1e-5, rtol=1e-5)


def test_stacking_is_a_linear_layer_of_neighbouring_frames():
    subsampling = make(StackedFrames, 3)
    expected = F.linear(FRAMES[0, 3:6].flatten(), subsampling.projection.weight, subsampling.projection.bias)
    torch.testing.assert_close(subsampling(FRAMES, LENGTHS)[0, 1], expected)


def test_stacks_of_one_are_the_frames():
    subsampling = make(StackedFrames, 1)
    torch.testing.assert_close(subsampling(FRAMES, LENGTHS)[0], subsampling.projection(FRAMES[0]))


def test_convolutions_see_neighbours_in_time_and_frequency():
    """Frame 4 reaches vectors 0 and 1 by two strides of two, kernel three; frame 12 reaches neither."""
    subsampling = make(ConvolutionalSubsampling, 4)
    before = subsampling(FRAMES, torch.tensor([13] * 3))
    for frame, reached in ((4, {1}), (3, {0, 1}), (12, {3})):
        changed = FRAMES.clone()
        changed[0, frame] += 1
        differs = (subsampling(changed, torch.tensor([13] * 3)) != before)[0].any(dim=-1)
        assert reached <= set(differs.nonzero().flatten().tolist())
        assert not differs[[t for t in range(4) if abs(4 * t - frame) > 6]].any()


@pytest.mark.parametrize("factor", [0, 1, 3, 6])
def test_convolutions_halve_and_nothing_else(factor):
    with pytest.raises(ValueError, match=f"factor \\({factor}\\)"):
        make(ConvolutionalSubsampling, factor)


def test_two_convolutions_halve_the_length_and_see_four_frames_on_each_side_at_most():
    torch.manual_seed(0)
    halving = HalvingConvolutions(5, 8)
    found = halving(FRAMES)
    assert found.shape == (3, 7, 8)
    inner = F.gelu(F.conv1d(FRAMES.transpose(1, 2), halving.first.weight, halving.first.bias, padding=1))
    place = F.gelu(torch.einsum("bit,oit->bo", inner[:, :, 3:6], halving.second.weight) + halving.second.bias)
    torch.testing.assert_close(found[:, 2], place)
    changed = FRAMES.clone()
    changed[:, 7:] += 1
    same = (halving(changed) - found).abs().amax(dim=(0, 2)) < 1e-6
    assert same.tolist() == [True, True, True, False, False, False, False]
