"""The convolutions against their parts written out; padding changes nothing."""

import pytest
import torch
import torch.nn.functional as F

from regard.layers.convolution import ConvolutionModule, InputConvolution


def module(kernel_size: int = 5) -> ConvolutionModule:
    torch.manual_seed(0)
    return ConvolutionModule(6, kernel_size)


def sequences() -> torch.Tensor:
    return torch.randn(2, 9, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kernel_size", [1, 3, 5, 31])
def test_it_is_what_the_paper_draws(kernel_size):
    convolution, x = module(kernel_size), sequences()
    left, right = F.linear(x, convolution.inner.weight, convolution.inner.bias).split(6, dim=-1)
    gated = left * right.sigmoid()
    mixed = torch.zeros_like(gated)
    half = kernel_size // 2
    for t in range(9):
        for k in range(kernel_size):
            if 0 <= t + k - half < 9:
                mixed[:, t] += gated[:, t + k - half] * convolution.depthwise.weight[:, 0, k]
    mixed = F.layer_norm(mixed + convolution.depthwise.bias, (6,)) * convolution.norm.weight
    swish = mixed * mixed.sigmoid()
    expected = F.linear(swish, convolution.outer.weight, convolution.outer.bias)
    torch.testing.assert_close(convolution(x), expected, atol=1e-5, rtol=1e-5)


def test_a_position_sees_half_a_kernel_to_each_side_and_no_more():
    convolution, x = module(5), sequences()
    changed = x.clone()
    changed[:, 4] += 1
    differs = (convolution(changed) != convolution(x)).any(dim=-1)
    assert differs[0].tolist() == [2 <= t <= 6 for t in range(9)]


def test_padding_is_as_the_end():
    convolution, x = module(), sequences()
    real = torch.arange(9) < torch.tensor([[9], [4]])
    dirty = x.where(real[:, :, None], 77.0)
    padded = convolution(dirty, real)
    torch.testing.assert_close(padded[0], convolution(x)[0])
    torch.testing.assert_close(padded[1, :4], convolution(x[1:, :4])[0])


@pytest.mark.parametrize("kernel_size", [0, 4, -3])
def test_a_kernel_without_a_middle_is_refused(kernel_size):
    with pytest.raises(ValueError, match=rf"kernel_size (is|\()\s*{kernel_size}"):
        module(kernel_size)


@pytest.mark.parametrize("kernel_size", [1, 3, 5, 31])
def test_the_input_convolution_adds_a_weighted_sum_of_the_neighbours(kernel_size):
    torch.manual_seed(0)
    convolution, x = InputConvolution(6, kernel_size), sequences()
    weight, bias, half = convolution.depthwise.weight, convolution.depthwise.bias, kernel_size // 2
    expected = x + bias
    for t in range(9):
        for k in range(kernel_size):
            if 0 <= t + k - half < 9:
                expected[:, t] += x[:, t + k - half] * weight[:, 0, k]
    torch.testing.assert_close(convolution(x, torch.ones(2, 9, dtype=torch.bool)), expected)


def test_padding_is_as_the_end_to_the_input_convolution():
    torch.manual_seed(0)
    convolution, x = InputConvolution(6, 5), sequences()
    real = torch.arange(9) < torch.tensor([[9], [4]])
    padded = convolution(x.where(real[:, :, None], 77.0), real)
    torch.testing.assert_close(padded[0], convolution(x, torch.ones_like(real))[0])
    torch.testing.assert_close(padded[1, :4], convolution(x[1:, :4], real[1:, :4])[0])


@pytest.mark.parametrize("kernel_size", [0, 4, -3])
def test_an_input_convolution_without_a_middle_is_refused(kernel_size):
    with pytest.raises(ValueError, match=rf"kernel_size (is|\()\s*{kernel_size}"):
        InputConvolution(6, kernel_size)
