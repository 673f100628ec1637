"""The state of a training run besides tensors, as JSON data."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.errors import FolderError
from regard.training.collapse import CollapseDetector

# fields that runs of older versions do not have
ADDED_LATER = {
    "second_value", "best_loss", "best_chrf", "watch", "validations", "start", "updates", "skipped_updates",
    "previous",
}  # fmt: skip


@dataclass(kw_only=True)
class TimedCount:
    """A count and the total time."""

    count: int = 0
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        """The mean time in seconds; 0 for a count of 0."""
        return self.seconds / self.count if self.count else 0.0


@dataclass(kw_only=True)
class TrainingState:
    """The progress of a run. Everything except times is the same in every run of the same recipe."""

    device: str = "cpu"
    step: int = 0  # updates done
    cursor: dict[str, int] = field(default_factory=dict)  # the loader's position
    target_tokens: int = 0
    window_nll: float = 0.0  # since the last report
    window_tokens: int = 0
    validated_step: int = 0
    best_value: float | None = None  # of `best_metric`
    second_value: float | None = None  # the best of `second_metric`, not always that of the best model
    best_loss: float | None = None  # of the best model
    best_chrf: float | None = None  # of the best model, if chrF++ is measured
    best_step: int = 0
    validations_since_best: int = 0
    skipped_in_a_row: int = 0  # updates whose loss or gradient was not finite
    skipped: int = 0
    rollbacks: int = 0
    watch: CollapseDetector = field(default_factory=CollapseDetector)  # for a collapse
    # per process: device type -> state, base64
    random: list[dict[str, str]] = field(default_factory=list, repr=False)
    seconds: float = 0.0  # of training, validation and saving
    validations: TimedCount = field(default_factory=TimedCount)

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainingState":
        """Reads a state; FolderError if it has other fields than this version."""
        names = {field.name for field in dataclasses.fields(cls)}
        if unmatched := names.symmetric_difference(values) - ADDED_LATER:
            unmatched = ", ".join(sorted(unmatched))
            raise FolderError(
                f"state.json does not match this version of regard: {unmatched}", "start a new run"
            )
        nested = {name: _read(part, values[name], name) for name, part in PARTS.items() if name in values}
        return cls(**{**values, **nested})


PARTS: dict[str, type] = {"watch": CollapseDetector, "validations": TimedCount}


def _read(cls: type, values: Any, name: str) -> Any:
    fields = {field.name for field in dataclasses.fields(cls)}
    if not isinstance(values, dict) or (values.keys() ^ fields) - ADDED_LATER:
        raise FolderError(f"state.json does not match this version of regard: {name}", "start a new run")
    return cls(**values)
