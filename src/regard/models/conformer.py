"""The conformer (Gulati et al. 2020), an encoder for speech that combines attention and convolution."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.layers.attention import SelfAttention
from regard.layers.block import NormPosition, PreNorm
from regard.layers.convolution import ConvolutionModule
from regard.layers.masks import real_positions
from regard.layers.positions import RotaryPositions
from regard.layers.relative import RelativePositions, RelativeSelfAttention
from regard.layers.subsampling import ConvolutionalSubsampling, StackedFrames, shortened
from regard.models.config import TransformerConfig
from regard.models.initialise import xavier
from regard.models.model import Model
from regard.models.positions import added_bias, position_bias, rotary_positions
from regard.models.registered import made_feed_forward, made_norm


@dataclass(frozen=True, kw_only=True)
class ConformerConfig(TransformerConfig):
    """The settings of a conformer with a CTC head; the defaults are the paper's small encoder (table 1).

    A frame has `num_features` features. `num_labels` counts the output symbols and the blank, which is number
    0. With `relative_positions` (Dai et al. 2019) `positions` must be "none"; without, they may be "rotary",
    "alibi", "t5" or "none".
    """

    kind: ClassVar[str] = "conformer"
    generates: ClassVar[bool] = True
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # Gulati et al. 2020, table 1, but with odd kernels: 31 positions instead of 32
        "conformer-s": {},
        "conformer-m": {"d_model": 256, "d_ff": 1024},
        "conformer-l": {"d_model": 512, "num_heads": 8, "d_ff": 2048, "num_layers": 17},
        # trains on a laptop in minutes
        "tiny": {
            "d_model": 64,
            "d_ff": 128,
            "num_layers": 2,
            "kernel_size": 7,
            "subsampling": "stacked",
        },
    }
    num_features: int
    num_labels: int
    subsampling: Literal["convolution", "stacked"] = "convolution"  # how frames become positions
    subsampling_factor: int = 4  # frames per position
    num_layers: int = 16  # blocks of the model
    kernel_size: int = 31  # positions of a convolution; odd
    relative_positions: bool = True
    d_model: int = 144
    num_heads: int = 4
    d_ff: int = 576
    norm_position: NormPosition = "pre"
    activation: str = "silu"
    positions: str = "none"

    def __post_init__(self) -> None:
        self.require_positive("num_features", "num_layers", "subsampling_factor", "kernel_size")
        super().__post_init__()
        self.require_default("head_dim", "attention_scale", "attention_bias", "feed_forward_bias")
        if self.num_labels < 2:
            raise ConfigError(
                f"num_labels = {self.num_labels} is too small", "count the blank and one symbol or more"
            )
        if self.kernel_size % 2 == 0:
            raise ConfigError(
                f"kernel_size = {self.kernel_size} is even", f"kernel_size = {self.kernel_size - 1}"
            )
        if self.qk_norm == "all_heads":
            raise ConfigError(
                "qk_norm = 'all_heads', but conformer blocks normalise each head", "qk_norm = true"
            )
        if self.norm_position != "pre":
            raise ConfigError(
                f"norm_position = {self.norm_position!r}, but conformer blocks are pre-norm",
                "norm_position = 'pre'",
            )
        self._check_subsampling()
        self._check_positions()

    def _check_subsampling(self) -> None:
        factor = self.subsampling_factor
        if self.subsampling == "convolution" and (factor == 1 or factor & (factor - 1)):
            raise ConfigError(
                f"subsampling_factor = {factor} is not a power of 2, as subsampling by convolutions needs",
                "use 2, 4 or 8, or subsampling = 'stacked'",
            )

    def _check_positions(self) -> None:
        if self.relative_positions and self.positions != "none":
            raise ConfigError(
                f"positions = {self.positions!r} together with relative_positions",
                "relative_positions = false",
            )
        if self.positions in ("sinusoidal", "learned"):
            raise ConfigError(
                f"positions = {self.positions!r} need embeddings, but the input is frames",
                "relative_positions = true, or positions = 'rotary', 'alibi', 't5', 'none'",
            )


class ConformerBlock(nn.Module):
    """Half-step feed-forward, attention, convolution, half-step feed-forward, norm (figure 1, equation 1)."""

    def __init__(self, config: ConformerConfig, self_attention: SelfAttention) -> None:
        super().__init__()
        self.first_half, self.around_first_half = made_feed_forward(config), _residual(config)
        self.self_attention, self.around_self_attention = self_attention, _residual(config)
        self.convolution = ConvolutionModule(config.d_model, config.kernel_size, config.bias)
        self.around_convolution = _residual(config)
        self.second_half, self.around_second_half = made_feed_forward(config), _residual(config)
        self.norm = made_norm(config, config.d_model)

    def forward(
        self,
        x: Float[Tensor, "batch len d_model"],
        real: Bool[Tensor, "batch len"],
        position_bias: Float[Tensor, "#batch heads len len"] | None = None,
    ) -> Float[Tensor, "batch len d_model"]:
        """`real` is False at padding."""
        mask = real[:, None, None]
        x = self.around_first_half(x, lambda y: self.first_half(y) / 2)
        x = self.around_self_attention(
            x, lambda y: self.self_attention(y, y, mask, position_bias=position_bias)
        )
        x = self.around_convolution(x, lambda y: self.convolution(y, real))
        x = self.around_second_half(x, lambda y: self.second_half(y) / 2)
        return self.norm(x)


class Conformer(Model):
    """Frames -> logits of the labels at each position, for connectionist temporal classification (CTC).

    Label 0 is the blank. Frames beyond the lengths are padding and change nothing.
    """

    def __init__(self, config: ConformerConfig) -> None:
        super().__init__()
        self.config: ConformerConfig = config
        subsampling = ConvolutionalSubsampling if config.subsampling == "convolution" else StackedFrames
        self.subsampling = subsampling(config.num_features, config.d_model, config.subsampling_factor)
        self.dropout = nn.Dropout(config.dropout)
        self.position_bias = position_bias(config, bidirectional=True)
        positions = (
            RelativePositions(config.d_model) if config.relative_positions else rotary_positions(config)
        )
        self.blocks = nn.ModuleList(
            ConformerBlock(config, _self_attention(config, positions)) for _ in range(config.num_layers)
        )
        self.output = nn.Linear(config.d_model, config.num_labels)

    def encode(
        self, frames: Float[Tensor, "batch frames features"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch len d_model"]:
        """The encoder's states; a row has `subsampled(lengths)` positions, the rest is padding."""
        x = self.dropout(self.subsampling(frames, lengths))
        length = x.size(1)
        real = real_positions(self.subsampled(lengths), length)
        bias = added_bias(self.position_bias, length, length)
        for block in self.blocks:
            x = block(x, real, bias)
        return x

    def forward(
        self, frames: Float[Tensor, "batch frames features"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch len num_labels"]:
        return self.output(self.encode(frames, lengths))

    def subsampled(self, lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """The numbers of positions for these numbers of frames."""
        return shortened(lengths, self.config.subsampling_factor)

    def initialise(self, generator: torch.Generator) -> None:
        xavier(self, generator)
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, nn.Conv1d | nn.Conv2d):
                    nn.init.kaiming_uniform_(module.weight, nonlinearity="relu", generator=generator)
                    if module.bias is not None:
                        nn.init.zeros_(module.bias)
                elif isinstance(module, RelativeSelfAttention):
                    for bias in (module.content_bias, module.distance_bias):
                        nn.init.normal_(bias, std=0.02, generator=generator)


def _self_attention(
    config: ConformerConfig, positions: RelativePositions | RotaryPositions | None
) -> SelfAttention:
    shared: dict[str, Any] = {
        "num_kv_heads": config.num_kv_heads,
        "dropout": config.attention_dropout,
        "bias": config.bias,
        "qk_norm": (lambda d_head: made_norm(config, d_head)) if config.qk_norm else None,
    }
    if isinstance(positions, RelativePositions):
        return RelativeSelfAttention(config.d_model, config.num_heads, positions, **shared)
    return SelfAttention(config.d_model, config.num_heads, rotary=positions, **shared)


def _residual(config: ConformerConfig) -> PreNorm:
    return PreNorm(lambda: made_norm(config, config.d_model), config.dropout)
