"""Scaled rotary positions: other angles, for texts longer than those of the first training.

A scaling changes the frequencies of `RotaryPositions`, the angles from one position to the next.
"""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class RotaryScaling:
    """The base class: frequencies are divided by up to `factor`."""

    kind: str = field(default="", init=False)
    factor: float

    def __post_init__(self) -> None:
        if not 1 <= self.factor < math.inf:
            raise ValueError(f"factor = {self.factor} is below 1: 1 changes nothing")

    def frequencies(self, usual: Float[Tensor, " pairs"], base: float) -> Float[Tensor, " pairs"]:
        """The frequency of each pair of features, from the `usual` one, base^(-2i/width)."""
        raise NotImplementedError

    @property
    def amplitude(self) -> float:
        """The factor of rotated queries and of rotated keys."""
        return 1.0

    @property
    def limit(self) -> int | None:
        """The number of positions that have angles; None without a limit."""
        return None


@dataclass(frozen=True, kw_only=True)
class LinearScaling(RotaryScaling):
    """Position interpolation: all frequencies are divided by `factor` (Chen et al. 2023)."""

    kind: str = field(default="linear", init=False)

    def frequencies(self, usual: Float[Tensor, " pairs"], base: float) -> Float[Tensor, " pairs"]:
        return usual / self.factor


@dataclass(frozen=True, kw_only=True)
class DynamicScaling(RotaryScaling):
    """Dynamic NTK scaling up to `original_length` tokens, where it does not change the frequencies.

    bloc97 2023. In longer texts the frequencies would depend on the length of the text, also at earlier
    positions. But a cache holds keys that are rotated already, and a batch has texts of several lengths. So
    longer texts are refused.
    """

    kind: str = field(default="dynamic", init=False)
    original_length: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_length(self.original_length)

    def frequencies(self, usual: Float[Tensor, " pairs"], base: float) -> Float[Tensor, " pairs"]:
        return usual

    @property
    def limit(self) -> int | None:
        return self.original_length


@dataclass(frozen=True, kw_only=True)
class Llama3Scaling(RotaryScaling):
    """Low frequencies are divided by `factor`, high ones are not (Llama 3.1, Grattafiori et al. 2024).

    A frequency is low if it rotates less than `low_frequency` times within `original_length` positions, high
    if more than `high_frequency` times; between the two the divisor changes gradually.
    """

    kind: str = field(default="llama3", init=False)
    original_length: int
    low_frequency: float = 1.0
    high_frequency: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_length(self.original_length)
        if not 0 < self.low_frequency < self.high_frequency < math.inf:
            raise ValueError(
                f"low_frequency = {self.low_frequency} is not between 0 and "
                f"high_frequency = {self.high_frequency}"
            )

    def frequencies(self, usual: Float[Tensor, " pairs"], base: float) -> Float[Tensor, " pairs"]:
        rotations = self.original_length * usual / (2 * math.pi)
        unscaled = (rotations - self.low_frequency) / (self.high_frequency - self.low_frequency)
        return usual * torch.lerp(
            torch.full_like(usual, 1 / self.factor), torch.ones_like(usual), unscaled.clamp(0, 1)
        )


@dataclass(frozen=True, kw_only=True)
class YarnScaling(RotaryScaling):
    """Low frequencies are divided by `factor`, high ones are not; scores are scaled (Peng et al. 2023).

    Pairs that rotate more than `beta_fast` times within `original_length` positions keep their frequency,
    those that rotate less than `beta_slow` times are divided. Between the two the multiplier falls from 1 to
    1 / `factor`, linearly with the index of the pair; with `truncate` this range begins and ends at whole
    indices. Queries and keys are multiplied by `attention_factor` (None: 0.1 log(factor) + 1).
    """

    kind: str = field(default="yarn", init=False)
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_length(self.original_length)
        if not 0 < self.beta_slow <= self.beta_fast < math.inf:
            raise ValueError(
                f"beta_slow = {self.beta_slow} is not between 0 and beta_fast = {self.beta_fast}"
            )
        if self.attention_factor is not None and not 0 < self.attention_factor < math.inf:
            raise ValueError(f"attention_factor = {self.attention_factor} is not above 0")

    def frequencies(self, usual: Float[Tensor, " pairs"], base: float) -> Float[Tensor, " pairs"]:
        first, last = self._bounds(2 * len(usual), base)
        pairs = torch.arange(len(usual), dtype=usual.dtype, device=usual.device)
        scaled = ((pairs - first) / (last - first)).clamp(0, 1)
        return usual * torch.lerp(torch.ones_like(usual), torch.full_like(usual, 1 / self.factor), scaled)

    def _bounds(self, width: int, base: float) -> tuple[float, float]:
        """The last pair that is not divided at all, and the first one that is divided by `factor`."""
        first, last = (
            width * math.log(self.original_length / (2 * math.pi * rotations)) / (2 * math.log(base))
            for rotations in (self.beta_fast, self.beta_slow)
        )
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(float(first), 0.0), min(float(last), width - 1.0)
        return first, last + 0.001 if first == last else last

    @property
    def amplitude(self) -> float:
        usual = 0.1 * math.log(self.factor) + 1
        return usual if self.attention_factor is None else self.attention_factor


SCALINGS: dict[str, type[RotaryScaling]] = {
    "linear": LinearScaling,
    "dynamic": DynamicScaling,
    "llama3": Llama3Scaling,
    "yarn": YarnScaling,
}


def _require_length(original_length: int) -> None:
    if original_length < 1:
        raise ValueError(f"original_length = {original_length} is below 1")
