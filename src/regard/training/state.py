"""All that a resumed run needs beside tensors, as plain data that JSON holds."""

import base64
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from regard.errors import FolderError
from regard.training.collapse import Watch

LATER = {"second_value", "watch", "validations"}  # what the runs of older versions have not written down


@dataclass(kw_only=True)
class Timed:
    """How many there were, and how long they took together."""

    count: int = 0
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        """Seconds each; 0 where there was none."""
        return self.seconds / self.count if self.count else 0.0


@dataclass(kw_only=True)
class TrainingState:
    """Where a run stands. Everything but `seconds` is the same in every run of the same recipe."""

    device: str = "cpu"
    step: int = 0  # updates done
    cursor: dict[str, int] = field(default_factory=dict)  # the next batch of the loader
    target_tokens: int = 0
    window_nll: float = 0.0  # since the last report
    window_tokens: int = 0
    validated_step: int = 0
    best_value: float | None = None  # of `best_metric`
    second_value: float | None = None  # of `second_metric`, the best ever; not always that of the best model
    best_step: int = 0
    validations_since_best: int = 0
    skipped_in_a_row: int = 0  # updates whose loss or gradient was not finite
    skipped: int = 0
    rollbacks: int = 0
    watch: Watch = field(default_factory=Watch)  # for a collapse
    random: list[dict[str, str]] = field(
        default_factory=list
    )  # a process: kind of device -> generator, base64
    seconds: float = 0.0  # of training, validation and saving
    validations: Timed = field(default_factory=Timed)

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainingState":
        names = {field.name for field in dataclasses.fields(cls)}
        if odd := names.symmetric_difference(values) - LATER:
            odd = ", ".join(sorted(odd))
            raise FolderError(f"state.json does not fit this version of regard: {odd}", "start a new run")
        nested = {name: _read(part, values[name], name) for name, part in PARTS.items() if name in values}
        return cls(**{**values, **nested})


PARTS: dict[str, type] = {"watch": Watch, "validations": Timed}


def _read(cls: type, values: Any, name: str) -> Any:
    fields = {field.name for field in dataclasses.fields(cls)}
    if not isinstance(values, dict) or values.keys() != fields:
        raise FolderError(f"state.json does not fit this version of regard: {name}", "start a new run")
    return cls(**values)


def random_state(device: torch.device) -> dict[str, str]:
    """The state of the generators that a model on `device` draws from."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return {name: base64.b64encode(bytes(state.tolist())).decode() for name, state in states.items()}


def restore_random_state(states: Mapping[str, str], device: torch.device) -> None:
    """Put back what `random_state` gave; on another kind of device only the CPU's."""
    for name, text in states.items():
        state = torch.tensor(list(base64.b64decode(text)), dtype=torch.uint8)
        if name == "cpu":
            torch.set_rng_state(state)
        elif name == device.type == "cuda":
            torch.cuda.set_rng_state(state, device)
        elif name == device.type == "mps":
            torch.mps.set_rng_state(state)
