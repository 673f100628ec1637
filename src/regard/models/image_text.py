"""Images and texts -> vectors in one space, by two encoders (CLIP, Radford et al. 2021)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Int64
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.feedforward import Activation
from regard.layers.masks import causal_mask, padding_mask
from regard.layers.patches import GridPositions, PatchEmbedding
from regard.models import parts
from regard.models.config import ModelConfig, TransformerConfig
from regard.models.image_input import check_patches, check_pixels
from regard.models.initialise import xavier
from regard.models.model import Model

FIRST_SCALE = math.log(1 / 0.07)  # the logarithm of the scale before training (section 2.5)


@dataclass(frozen=True, kw_only=True)
class ImageTextConfig(ModelConfig):
    """The settings of an image-text model; the defaults are those of CLIP ViT-B/32.

    `d_model` is the width of the vectors. There is no text tower if `vocab_size` is None, and no image tower
    if `image_size` is None. Without `projection` vectors are the states of the only tower.

    The vector of a text is the state at its first token `end_id`; None: at its token of the highest id. The
    input of the image tower is (pixels - `pixel_mean`) / `pixel_std`, with pixels between 0 and 1; both are a
    number, or one for each channel. `resizing`, `resized_size`, `resampling` and `cropped` are how images of
    other sizes become `image_size` x `image_size` pixels (see `ImageFit` of regard.data.resizing).
    """

    kind: ClassVar[str] = "image_text"
    d_model: int = 512  # width of the vectors
    projection: bool = True  # False: a tower alone, whose states are the vectors
    vocab_size: int | None = None  # tokens of the vocabulary; None: no text tower
    d_text: int = 512  # width of the states of the text tower
    text_heads: int = 8  # heads of each attention of the text tower
    d_ff_text: int = 2048  # width within a feed-forward network of the text tower
    text_layers: int = 12  # blocks of the text tower
    text_activation: Activation = "quick_gelu"  # within feed-forward networks of the text tower
    text_norm_eps: float = 1e-5  # of the norms of the text tower
    text_attention_dropout: float = 0.0  # of attention weights of the text tower
    max_positions: int = 77  # tokens of a text, special tokens included
    end_id: int | None = None  # the token whose state is a text's vector; None: that of the highest id
    image_size: int | None = None  # height and width in pixels; None: no image tower
    channels: int = 3  # of an image
    patch_size: int = 32  # height and width of a patch in pixels
    d_image: int = 768  # width of the states of the image tower
    image_heads: int = 12  # heads of each attention of the image tower
    d_ff_image: int = 3072  # width within a feed-forward network of the image tower
    image_layers: int = 12  # blocks of the image tower
    image_activation: Activation = "quick_gelu"  # within feed-forward networks of the image tower
    image_norm_eps: float = 1e-5  # of the norms of the image tower
    image_attention_dropout: float = 0.0  # of attention weights of the image tower
    pixel_mean: float | tuple[float, ...] = (0.48145466, 0.4578275, 0.40821073)
    pixel_std: float | tuple[float, ...] = (0.26862954, 0.26130258, 0.27577711)
    resizing: Literal["shortest_edge", "square"] | None = "shortest_edge"  # which sides get resized_size
    resized_size: int | None = None  # in pixels; None: image_size
    resampling: Literal["bicubic", "bilinear"] = "bicubic"  # of resized images
    cropped: bool = True  # take the centre of the resized image

    def __post_init__(self) -> None:
        self.require_positive("d_model", "vocab_size", "image_size", "channels", "patch_size")
        self.require_positive("text_layers", "image_layers", "max_positions", "resized_size")
        if self.vocab_size is None and self.image_size is None:
            raise ConfigError("an image-text model without towers", "give vocab_size, image_size or both")
        if self.vocab_size is not None:
            self._check_text(self.vocab_size)
        if self.image_size is not None:
            self._check_image(self.image_size)
        if not self.projection and self.widths != [self.d_model]:
            raise ConfigError(
                f"projection = false, but d_model = {self.d_model} and the towers are {self.widths} wide",
                "only one tower alone, as wide as d_model, needs no projection",
            )

    def _check_text(self, vocab_size: int) -> None:
        if self.end_id is not None:
            self.require_token_id("end_id", vocab_size)
        self.of_text()

    def _check_image(self, size: int) -> None:
        check_patches(size, self.patch_size)
        check_pixels(self.channels, self.pixel_mean, self.pixel_std)
        self.of_image()

    @property
    def widths(self) -> list[int]:
        """The widths of the towers that the model has."""
        sizes = ((self.vocab_size, self.d_text), (self.image_size, self.d_image))
        return [width for size, width in sizes if size is not None]

    def of_text(self) -> TransformerConfig:
        """The settings of the text tower's blocks."""
        return self._tower("text", max_positions=self.max_positions)

    def of_image(self) -> TransformerConfig:
        """The settings of the image tower's blocks."""
        return self._tower("image", max_positions=1)

    def _tower(self, side: str, **others: Any) -> TransformerConfig:
        names = {
            "d_model": f"d_{side}",
            "num_heads": f"{side}_heads",
            "d_ff": f"d_ff_{side}",
            "activation": f"{side}_activation",
            "norm_eps": f"{side}_norm_eps",
            "attention_dropout": f"{side}_attention_dropout",
        }
        settings: Mapping[str, Any] = {ours: getattr(self, name) for ours, name in names.items()}
        return TransformerConfig(**settings, **others, norm_position="pre", positions="learned", dropout=0.0)


class TextTower(nn.Module):
    """Ids -> one state for each text; each position attends to itself and those before (section 2.4)."""

    def __init__(self, config: ImageTextConfig, vocab_size: int) -> None:
        super().__init__()
        stack = config.of_text()
        self.end_id = config.end_id
        self.input = parts.InputEmbedding(stack, vocab_size, scaled=False)
        self.blocks = nn.ModuleList(parts.encoder_block(stack, None) for _ in range(config.text_layers))
        self.norm = parts.final_norm(stack)

    def forward(
        self, ids: Int64[Tensor, "texts len"], lengths: Int[Tensor, " texts"]
    ) -> Float[Tensor, "texts d_text"]:
        x = self.input(ids)
        mask = causal_mask(ids.size(1), device=ids.device)  # padding is after the states that are used
        for block in self.blocks:
            x = block(x, mask)
        real = padding_mask(lengths, ids.size(1))[:, 0, 0]
        ends = ids.where(real, -1) if self.end_id is None else ((ids == self.end_id) & real).int()
        return self.norm(x[torch.arange(len(ids), device=ids.device), ends.argmax(dim=1)])


class ImageTower(nn.Module):
    """Images -> one state for each image, that of the class token (section 2.4)."""

    def __init__(self, config: ImageTextConfig, image_size: int) -> None:
        super().__init__()
        stack, grid = config.of_image(), image_size // config.patch_size
        self.patches = PatchEmbedding(config.channels, config.patch_size, config.d_image, bias=False)
        self.class_token = nn.Parameter(torch.zeros(config.d_image))
        self.positions = GridPositions(config.d_image, grid, grid, before=1)
        self.first_norm = parts.final_norm(stack)
        self.blocks = nn.ModuleList(parts.encoder_block(stack, None) for _ in range(config.image_layers))
        self.norm = parts.final_norm(stack)

    def forward(
        self, images: Float[Tensor, "images channels height width"]
    ) -> Float[Tensor, "images d_image"]:
        patches = self.patches(images)
        x = torch.cat([self.class_token.expand(len(images), 1, -1), patches], dim=1)
        x = self.first_norm(x + self.positions(self.positions.rows, self.positions.columns))
        for block in self.blocks:
            x = block(x)
        return self.norm(x[:, 0])


class ImageText(Model):
    """A text tower, an image tower, their projections, and the scale of the cosines of their vectors.

    A model may have one tower only; the parts of the other are None, and so is the scale.
    """

    def __init__(self, config: ImageTextConfig) -> None:
        super().__init__()
        self.config: ImageTextConfig = config
        self.text = self.image = self.text_projection = self.image_projection = self.logit_scale = None
        if config.vocab_size is not None:
            self.text = TextTower(config, config.vocab_size)
        if config.image_size is not None:
            self.image = ImageTower(config, config.image_size)
        if self.text is not None and config.projection:
            self.text_projection = nn.Linear(config.d_text, config.d_model, bias=False)
        if self.image is not None and config.projection:
            self.image_projection = nn.Linear(config.d_image, config.d_model, bias=False)
        if self.text is not None and self.image is not None:
            self.logit_scale = nn.Parameter(torch.tensor(FIRST_SCALE))

    def forward(
        self,
        ids: Int64[Tensor, "texts len"],
        lengths: Int[Tensor, " texts"],
        images: Float[Tensor, "images channels height width"],
    ) -> Float[Tensor, "texts images"]:
        """The logit of each image for each text: the cosine of their vectors, times the scale.

        Texts are padded on the right, beyond `lengths`.
        """
        return self.logits(self.text_features(ids, lengths), self.image_features(images))

    def text_features(
        self, ids: Int64[Tensor, "texts len"], lengths: Int[Tensor, " texts"]
    ) -> Float[Tensor, "texts d_model"]:
        """The vector of each text, of any length; ValueError if the model has no text tower."""
        if self.text is None:
            raise ValueError("the model has no text tower")
        x = self.text(ids, lengths)
        return x if self.text_projection is None else self.text_projection(x)

    def image_features(
        self, images: Float[Tensor, "images channels height width"]
    ) -> Float[Tensor, "images d_model"]:
        """The vector of each image, of any length; ValueError if the model has no image tower."""
        if self.image is None:
            raise ValueError("the model has no image tower")
        x = self.image(images)
        return x if self.image_projection is None else self.image_projection(x)

    def logits(
        self, texts: Float[Tensor, "texts d_model"], images: Float[Tensor, "images d_model"]
    ) -> Float[Tensor, "texts images"]:
        """The logits of `forward` from the vectors of texts and images; ValueError if a tower is missing."""
        if self.logit_scale is None:
            raise ValueError("the model has one tower only")
        return self.logit_scale.exp() * F.normalize(texts, dim=-1) @ F.normalize(images, dim=-1).T

    @property
    def max_length(self) -> int:
        """The greatest length of a text that the model can read."""
        return self.config.max_positions

    def initialise(self, generator: torch.Generator) -> None:
        xavier(self, generator)
        with torch.no_grad():
            if self.image is not None:
                for weight in (self.image.class_token, self.image.positions.weight):
                    nn.init.normal_(weight, std=0.02, generator=generator)
            if self.logit_scale is not None:
                self.logit_scale.fill_(FIRST_SCALE)
