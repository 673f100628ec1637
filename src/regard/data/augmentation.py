"""Small movements of training images: shifts, turns and changes of size, a whole batch at once."""

import math
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.data.examples import Numbers
from regard.errors import RecipeError


@dataclass(frozen=True, kw_only=True)
class AugmentationSettings:
    """What may happen to a training image, drawn evenly up to these bounds in both directions.

    `shift`: of each axis, in pixels; `rotation`: in degrees; `scale`: as a share of the size. What comes in
    from outside is as the pixels at the edge of the picture: black where that is black.
    """

    shift: float = 0.0
    rotation: float = 0.0
    scale: float = 0.0

    def __post_init__(self) -> None:
        for name, limit in (("shift", math.inf), ("rotation", 180), ("scale", 0.99)):
            if not 0 <= getattr(self, name) <= limit:
                raise RecipeError(
                    f"augmentation.{name} = {getattr(self, name)} is out of bounds", f"0 to {limit}"
                )

    @property
    def changes(self) -> bool:
        return any(asdict(self).values())


def moved(
    images: Float[Tensor, "images channels height width"],
    draws: Float[Tensor, "images 4"],
    augmentation: AugmentationSettings,
) -> Float[Tensor, "images channels height width"]:
    """Each image shifted, turned and scaled by its four `draws` between 0 and 1, bilinearly, in one step."""
    height, width = images.shape[2:]
    draws = 2 * draws - 1
    angle = math.radians(augmentation.rotation) * draws[:, 0]
    scale = 1 + augmentation.scale * draws[:, 1]
    cosine, sine = angle.cos() / scale, angle.sin() / scale
    # where in the old image (-1 to 1 on each axis) each pixel of the new one comes from
    where = torch.stack(
        [
            torch.stack(
                [cosine, -sine * height / width, 2 * augmentation.shift * draws[:, 2] / width], dim=1
            ),
            torch.stack(
                [sine * width / height, cosine, 2 * augmentation.shift * draws[:, 3] / height], dim=1
            ),
        ],
        dim=1,
    )
    grid = F.affine_grid(where, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def uniform(seed: int, examples: Numbers, count: int) -> np.ndarray:
    """`count` numbers in [0, 1) for each example, a function of the seed and the example alone.

    SplitMix64 (Steele et al. 2014) at the places `example * count`, `example * count` + 1, ... of its
    sequence: a hash, so that a whole batch is drawn at once and no example knows its neighbours.
    """
    places = examples.astype(np.uint64)[:, None] * np.uint64(count) + np.arange(1, count + 1, dtype=np.uint64)
    bits = np.uint64(seed) + places * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return (bits >> np.uint64(11)) * 2.0**-53
