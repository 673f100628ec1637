"""Image augmentation: random shifts, rotations and scaling of a whole batch at once."""

import math
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.data.examples import Indices
from regard.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class AugmentationSettings:
    """The largest random changes of a training image, sampled uniformly in both directions.

    `shift`: of each axis, in pixels; `rotation`: in degrees; `scale`: as a share of the size. Pixels from
    outside the image repeat the pixel at its edge.
    """

    shift: float = 0.0  # greatest shift along each axis, in pixels
    rotation: float = 0.0  # greatest rotation, in degrees
    scale: float = 0.0  # greatest change of size, as a share of it

    def __post_init__(self) -> None:
        for name, limit in (("shift", math.inf), ("rotation", 180), ("scale", 0.99)):
            if not 0 <= getattr(self, name) <= limit:
                raise RecipeError(
                    f"augmentation.{name} = {getattr(self, name)} is out of bounds", f"0 to {limit}"
                )

    @property
    def enabled(self) -> bool:
        """True if any change is above 0."""
        return any(asdict(self).values())


def augmented(
    images: Float[Tensor, "images channels height width"],
    random_numbers: Float[Tensor, "images 4"],
    augmentation: AugmentationSettings,
) -> Float[Tensor, "images channels height width"]:
    """Shifts, rotates and scales each image in one bilinear resampling.

    `random_numbers`: four for each image in [0, 1): rotation, scale, horizontal and vertical shift.
    """
    height, width = images.shape[2:]
    random_numbers = 2 * random_numbers - 1
    angle = math.radians(augmentation.rotation) * random_numbers[:, 0]
    scale = 1 + augmentation.scale * random_numbers[:, 1]
    cosine, sine = angle.cos() / scale, angle.sin() / scale
    # maps each pixel of the new image to its place in the old one (-1 to 1 on each axis)
    transform = torch.stack(
        [
            torch.stack(
                [cosine, -sine * height / width, 2 * augmentation.shift * random_numbers[:, 2] / width], dim=1
            ),
            torch.stack(
                [sine * width / height, cosine, 2 * augmentation.shift * random_numbers[:, 3] / height], dim=1
            ),
        ],
        dim=1,
    )
    grid = F.affine_grid(transform, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def uniform(seed: int, examples: Indices, count: int) -> np.ndarray:
    """`count` uniform random numbers in [0, 1) for each example, which depend on seed and example alone.

    SplitMix64 (Steele et al. 2014) at the positions `example * count`, `example * count` + 1, ... of its
    sequence. It is a hash, so a whole batch is computed at once.
    """
    positions = examples.astype(np.uint64)[:, None] * np.uint64(count) + np.arange(
        1, count + 1, dtype=np.uint64
    )
    bits = np.uint64(seed) + positions * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return (bits >> np.uint64(11)) * 2.0**-53
