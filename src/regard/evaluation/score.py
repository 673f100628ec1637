"""A score of a test set, of whatever kind, with its interval and what it was computed by."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score of a whole test set and its 95 % interval; `signature` says how it was computed."""

    name: str
    value: float
    low: float | None
    high: float | None
    signature: str
