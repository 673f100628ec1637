"""Settings of stacks in which all layers, or some of them, attend to a sliding window."""

import math
from dataclasses import dataclass
from typing import Literal

from regard.errors import ConfigError
from regard.models.config import TransformerConfig

LayerType = Literal["full_attention", "sliding_attention"]


@dataclass(frozen=True, kw_only=True)
class WindowConfig(TransformerConfig):
    """The settings of a stack of layers of one or two types (Beltagy et al. 2020, section 3; Gemma 2)."""

    num_layers: int = 12  # blocks of the model
    window: int | None = None  # attend to window - 1 positions before, in encoders also after; None: to all
    layer_types: tuple[LayerType, ...] | None = None  # repeated; None: all layers have the window
    local_rotary_base: float | None = None  # of layers with the window, unscaled; None: as the others

    def __post_init__(self) -> None:
        self.require_positive("num_layers", "window")
        super().__post_init__()
        if self.layer_types is not None:
            self._check_layer_types(self.layer_types)
        if self.local_rotary_base is not None:
            self._check_local_rotary_base(self.local_rotary_base)

    def _check_layer_types(self, types: tuple[LayerType, ...]) -> None:
        if not 0 < len(types) <= self.num_layers:
            raise ConfigError(
                f"layer_types has {len(types)} types for {self.num_layers} layers",
                "give one for each layer, or fewer, which are repeated",
            )
        if self.window is None and "sliding_attention" in types:
            raise ConfigError("layer_types has sliding_attention, but there is no window", "give window")
        if self.window is not None and "sliding_attention" not in types:
            raise ConfigError(
                f"window = {self.window}, but no layer of layer_types has sliding_attention",
                "leave window out",
            )

    def _check_local_rotary_base(self, base: float) -> None:
        if not 1 < base < math.inf:
            raise ConfigError(f"local_rotary_base = {base} is not above 1", "10000 is usual")
        if self.positions != "rotary" or self.window is None:
            raise ConfigError(
                f"local_rotary_base = {base} is the base of rotary positions in layers with a window",
                "leave it out, or use positions = 'rotary' and a window",
            )

    @property
    def windows(self) -> tuple[int | None, ...]:
        """The window of each layer; None for a layer that attends to all positions."""
        types = self.layer_types or ("sliding_attention",)
        return tuple(
            self.window if types[layer % len(types)] == "sliding_attention" else None
            for layer in range(self.num_layers)
        )
