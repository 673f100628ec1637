"""The vision transformer (Dosovitskiy et al. 2021), which reads an image as a sequence of patches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.block import NormPosition
from regard.layers.patches import GridPositions, PatchEmbedding
from regard.models import parts
from regard.models.config import TransformerConfig
from regard.models.image_input import check_patches, check_pixels
from regard.models.initialise import xavier
from regard.models.model import Model


@dataclass(frozen=True, kw_only=True)
class VisionConfig(TransformerConfig):
    """The settings of a vision transformer; the defaults are ViT-Base/16 at 224 x 224 pixels (table 1).

    `image_size`, `channels`, `pixel_mean` and `pixel_std` describe the training images. The input is
    (pixels - `pixel_mean`) / `pixel_std`, with pixels between 0 and 1; both are a number, or one for each
    channel. `resizing`, `resized_size`, `resampling` and `cropped` are how images of other sizes become
    `image_size` x `image_size` pixels (see `ImageFit` of regard.data.resizing).

    `distillation` adds a distillation token after the class token (DeiT, Touvron et al. 2021): with "head" it
    has a head of its own, and the logits are the mean of both; with "token" no head reads it.
    """

    kind: ClassVar[str] = "vision"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # Dosovitskiy et al. 2021, table 1
        "vit-base": {},
        "vit-large": {"d_model": 1024, "num_heads": 16, "d_ff": 4096, "num_layers": 24},
        # Touvron et al. 2021, table 1: DeiT-Ti
        "vit-tiny": {"d_model": 192, "num_heads": 3, "d_ff": 768},
        # for 28 x 28 pixels and a laptop
        "mnist": {"patch_size": 4, "d_model": 64, "num_heads": 4, "d_ff": 128, "num_layers": 4},
    }
    num_labels: int  # classes; follows from the data
    image_size: int = 224  # height and width in pixels
    channels: int = 3
    patch_size: int = 16  # height and width of a patch in pixels
    pixel_mean: float | tuple[float, ...] = 0.5
    pixel_std: float | tuple[float, ...] = 0.5
    resizing: Literal["shortest_edge", "square"] | None = "square"  # which sides get resized_size
    resized_size: int | None = None  # in pixels; None: image_size
    resampling: Literal["bicubic", "bilinear"] = "bilinear"  # of resized images
    cropped: bool = False  # take the centre of the resized image
    num_layers: int = 12  # blocks of the model
    pooling: Literal["cls", "mean"] = "cls"  # classify the class token, or the mean of all patches
    distillation: Literal["token", "head"] | None = None
    d_model: int = 768
    num_heads: int = 12
    d_ff: int = 3072
    norm_position: NormPosition = "pre"
    activation: str = "gelu"
    positions: str = "learned"  # or "none"

    def __post_init__(self) -> None:
        self.require_positive("num_labels", "image_size", "channels", "patch_size")
        self.require_positive("num_layers", "resized_size")
        super().__post_init__()
        check_patches(self.image_size, self.patch_size)
        if self.positions not in ("learned", "none"):
            raise ConfigError(
                f"positions = {self.positions!r} do not fit a grid of patches", "positions = 'learned'"
            )
        if self.distillation is not None and self.pooling != "cls":
            raise ConfigError(
                f"distillation = {self.distillation!r} needs a class token, but pooling = {self.pooling!r}",
                "pooling = 'cls'",
            )
        check_pixels(self.channels, self.pixel_mean, self.pixel_std)

    @property
    def grid(self) -> int:
        """The number of patches in each row, and of rows."""
        return self.image_size // self.patch_size

    @property
    def num_special_tokens(self) -> int:
        """The number of tokens before the patches: of the class, and of distillation."""
        return (self.pooling == "cls") + (self.distillation is not None)


class VisionTransformer(Model):
    """Images -> logits of their classes.

    Patch embeddings and a class token get learned positions and go through encoder blocks. Images may differ
    in size from the training images, as long as patches divide them: positions are interpolated.
    """

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config: VisionConfig = config
        self.patches = PatchEmbedding(config.channels, config.patch_size, config.d_model)
        self.class_token = nn.Parameter(torch.zeros(config.d_model)) if config.pooling == "cls" else None
        self.distillation_token = nn.Parameter(torch.zeros(config.d_model)) if config.distillation else None
        self.positions = None
        if config.positions == "learned":
            before = config.num_special_tokens
            self.positions = GridPositions(config.d_model, config.grid, config.grid, before=before)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(parts.encoder_block(config, None) for _ in range(config.num_layers))
        self.norm = parts.final_norm(config)
        self.head = nn.Linear(config.d_model, config.num_labels)
        self.distillation_head = None
        if config.distillation == "head":
            self.distillation_head = nn.Linear(config.d_model, config.num_labels)

    def encode(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch positions d_model"]:
        """The encoder's states: of the class token and the distillation token, if any, then of each patch."""
        x = self.patches(images)
        for token in (self.distillation_token, self.class_token):
            if token is not None:
                x = torch.cat([token.expand(len(x), 1, -1), x], dim=1)
        if self.positions is not None:
            rows, columns = (side // self.config.patch_size for side in images.shape[2:])
            x = x + self.positions(rows, columns)
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def forward(self, images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch labels"]:
        x = self.encode(images)
        logits = self.head(x[:, 0] if self.class_token is not None else x.mean(dim=1))
        if self.distillation_head is None:
            return logits
        return (logits + self.distillation_head(x[:, 1])) / 2

    def initialise(self, generator: torch.Generator) -> None:
        xavier(self, generator)
        with torch.no_grad():
            for token in (self.class_token, self.distillation_token):
                if token is not None:
                    nn.init.normal_(token, std=0.02, generator=generator)
            if self.positions is not None:
                nn.init.normal_(self.positions.weight, std=0.02, generator=generator)
