"""Images as sequences (ViT): embeddings of square patches, and of their positions in the grid."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.arguments import refuse_other_sizes


class PatchEmbedding(nn.Module):
    """A linear layer from each square of `patch_size` x `patch_size` pixels to a vector.

    Dosovitskiy et al. 2021, equation 1. Patches do not overlap and are ordered row by row. The columns of
    the weight are ordered by channel, row and column of a patch: it is the flattened weight of a strided
    convolution. CLIP's has no `bias`.
    """

    def __init__(self, channels: int, patch_size: int, d_model: int, *, bias: bool = True) -> None:
        super().__init__()
        refuse_other_sizes(channels=channels, patch_size=patch_size, d_model=d_model)
        self.patch_size = patch_size
        self.projection = nn.Linear(channels * patch_size**2, d_model, bias)

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch patches d_model"]:
        return self.projection(patches(images, self.patch_size))


def patches(
    images: Float[Tensor, "batch channels height width"], size: int
) -> Float[Tensor, "batch patches channels_size_size"]:
    """The pixels of each patch, row by row of patches; those of a patch by channel, row and column.

    Raises:
        ValueError: height or width is not a multiple of `size`.
    """
    height, width = images.shape[2:]
    if not height or not width or height % size or width % size:
        raise ValueError(
            f"an image of {height} x {width} pixels has no whole number of {size} x {size} patches"
        )
    grid = images.unflatten(3, (-1, size)).unflatten(2, (-1, size))  # batch channels rows size columns size
    return grid.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


class GridPositions(nn.Module):
    """A learned vector for each of `before` tokens, then for each cell of a grid of `rows` x `columns`.

    `before` counts the special tokens (class, distillation) before the patches. For a grid of another size
    the vectors of the grid are interpolated (bicubic), as Dosovitskiy et al. 2021, section 3.2, do for images
    of a higher resolution than in training.
    """

    def __init__(self, d_model: int, rows: int, columns: int, *, before: int = 0) -> None:
        super().__init__()
        refuse_other_sizes(d_model=d_model, rows=rows, columns=columns)
        refuse_other_sizes(least=0, before=before)
        self.rows, self.columns, self.before = rows, columns, before
        self.weight = nn.Parameter(torch.empty(before + rows * columns, d_model))
        nn.init.normal_(self.weight, std=0.02)  # as in ViT

    def forward(self, rows: int, columns: int) -> Float[Tensor, "{self.before}+{rows}*{columns} d_model"]:
        """The vectors for an image of `rows` x `columns` patches, in the order of `patches`."""
        if (rows, columns) == (self.rows, self.columns):
            return self.weight
        grid = self.weight[self.before :].T.unflatten(1, (self.rows, self.columns))[None]
        resized = F.interpolate(grid, (rows, columns), mode="bicubic", align_corners=False)
        return torch.cat([self.weight[: self.before], resized[0].flatten(1).T])
