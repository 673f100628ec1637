"""Subsampling: sequences of frames -> shorter sequences of vectors, each from several frames."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layers.arguments import refuse_other_sizes
from regard.layers.masks import real_positions

Frames = Float[Tensor, "batch frames features"]
Lengths = Int[Tensor, " batch"]


def shortened(lengths: Lengths, factor: int) -> Int[Tensor, " batch"]:
    """The number of vectors for each number of frames: lengths / factor, rounded up."""
    return (lengths + (factor - 1)).div(factor, rounding_mode="floor")


class StackedFrames(nn.Module):
    """A linear layer from `factor` neighbouring frames to one vector (Sak et al. 2015)."""

    def __init__(self, num_features: int, d_model: int, factor: int) -> None:
        super().__init__()
        refuse_other_sizes(num_features=num_features, d_model=d_model, factor=factor)
        self.factor = factor
        self.projection = nn.Linear(num_features * factor, d_model)

    def forward(self, frames: Frames, lengths: Lengths) -> Float[Tensor, "batch len d_model"]:
        """Frames beyond the lengths count as zeros."""
        frames = F.pad(_without_padding(frames, lengths), (0, 0, 0, -frames.size(1) % self.factor))
        return self.projection(frames.unflatten(1, (-1, self.factor)).flatten(2))


class ConvolutionalSubsampling(nn.Module):
    """Convolutions of 3 x 3 over time and frequency, each of which halves both, then a linear layer.

    Gulati et al. 2020, figure 1, have two of them; here there are log2(`factor`), a power of two.
    """

    def __init__(self, num_features: int, d_model: int, factor: int) -> None:
        super().__init__()
        refuse_other_sizes(num_features=num_features, d_model=d_model, factor=factor)
        halvings = factor.bit_length() - 1
        if factor < 2 or factor != 2**halvings:
            raise ValueError(f"each convolution halves the length, but factor ({factor}) is not 2, 4, 8, ...")
        self.factor = factor
        self.convolutions = nn.ModuleList(
            nn.Conv2d(d_model if number else 1, d_model, 3, stride=2, padding=1) for number in range(halvings)
        )
        self.projection = nn.Linear(d_model * -(-num_features // factor), d_model)

    def forward(self, frames: Frames, lengths: Lengths) -> Float[Tensor, "batch len d_model"]:
        """Frames beyond the lengths count as zeros, after each convolution too."""
        x = _without_padding(frames, lengths)[:, None]  # batch channels frames features
        for convolution in self.convolutions:
            lengths = shortened(lengths, 2)
            x = convolution(x).relu()
            x = x * real_positions(lengths, x.size(2))[:, None, :, None]
        return self.projection(x.transpose(1, 2).flatten(2))


class HalvingConvolutions(nn.Module):
    """Two convolutions of three frames with GELU, the second of which halves the length.

    Radford et al. 2023, section 2.2. All frames are sound: there is no padding.
    """

    def __init__(self, num_features: int, d_model: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(num_features, d_model, 3, padding=1)
        self.second = nn.Conv1d(d_model, d_model, 3, stride=2, padding=1)

    def forward(self, frames: Frames) -> Float[Tensor, "batch len d_model"]:
        x = F.gelu(self.first(frames.transpose(1, 2)))
        return F.gelu(self.second(x)).transpose(1, 2)


def _without_padding(frames: Frames, lengths: Lengths) -> Frames:
    return frames.where(real_positions(lengths, frames.size(1))[:, :, None], 0.0)
