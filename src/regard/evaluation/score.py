"""A score of a test set with its confidence interval and signature."""

from dataclasses import dataclass
from importlib.metadata import version
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


@dataclass(frozen=True, kw_only=True)
class FineScore(Score):
    """A score whose third and fourth decimals tell models apart: losses, bits, correlations."""

    decimals: ClassVar[int] = 4


@dataclass(frozen=True, kw_only=True)
class BleuScore(Score):
    """BLEU and what it is computed from: precisions in percent, by the length of the n-grams from 1 on."""

    brevity_penalty: float
    precisions: tuple[float, ...]
    hypothesis_length: int  # in tokens of the tokeniser in the signature
    reference_length: int  # of the references nearest in length

    @property
    def parts(self) -> str:
        """A line about what it is computed from."""
        precisions = "/".join(f"{value:.1f}" for value in self.precisions)
        lengths = f"{self.hypothesis_length:,} tokens ({self.reference_length:,} in the references)"
        return f"{self.name}: precisions {precisions}, brevity penalty {self.brevity_penalty:.3f}, {lengths}"


def version_fact() -> str:
    """The part of a signature that says which regard computed the score."""
    return f"version:regard {version('regard')}"
