"""A score of a test set with its confidence interval and signature."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score of a whole test set."""

    decimals: ClassVar[int] = 2  # that are shown
    name: str
    value: float
    low: float | None  # the 95 % interval; None if it was not computed
    high: float | None
    signature: str  # how the score was computed
