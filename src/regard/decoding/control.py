"""The declaration of one decoding control: its help, its bounds, and the value that switches it off.

PyTorch is not imported here, so that `--help` is quick.
"""

import dataclasses
import functools
import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

from regard.errors import ConfigError

MOST_HYPOTHESES = 1000  # of one text, searched or sampled: 0.4 GB and 12 s for four words on one core
MOST_TOKENS = 100_000  # of one text: the caches of a large model then fill tens of gigabytes
MOST_IDS = 10**9  # no vocabulary has as many
MOST_CHARACTERS = 5000  # of a text in a control, which becomes tokens before decoding begins
INTEGERS = 2**63  # PyTorch has no integers beyond
LARGEST, SMALLEST = 1000, 1e-6  # factors beyond these leave the range of float32


@dataclass(frozen=True, kw_only=True)
class Control:
    """What is declared of a control besides its type and default.

    `neutral` switches the control off and is always allowed. Values between `least` and `smallest` are
    refused. `unit`: what the number counts, where it decides about memory.
    """

    help: str = ""
    metavar: str = "N"
    neutral: Any = None
    least: int | float | None = None
    smallest: float | None = None
    most: int | float | None = None
    unit: Literal["", "hypotheses", "tokens"] = ""

    def refuse(self, name: str, value: int | float, suggestion: Any) -> None:
        """Raise a ConfigError if the value is out of range."""
        hint = f"{name} = {suggestion} would do"
        if isinstance(value, int) and not -INTEGERS <= value < INTEGERS:
            raise ConfigError(
                f"{name} is beyond an integer of 64 bits, which is at most {INTEGERS - 1:,}", hint
            )
        if not math.isfinite(value):
            raise ConfigError(f"{name} is {value}, but must be a finite number", hint)
        if value == self.neutral:
            return
        if self.least is not None and self.smallest is not None and self.least < value < self.smallest:
            least = f"{self.least} or at least {self.smallest:g}"
            raise ConfigError(f"{name} is {value}, but must be {least}", hint)
        if self.least is not None and value < self.least:
            raise ConfigError(f"{name} is {value}, but must be at least {self.least:g}", hint)
        if self.most is not None and value > self.most:
            raise ConfigError(f"{name} is {value}, but must be at most {self.most:,}", hint)


def control(help: str, default: Any = None, **facts: Any) -> Any:
    """A dataclass field with a `Control` in its metadata."""
    return dataclasses.field(default=default, metadata={"control": Control(help=help, **facts), "help": help})


def bounded(default: Any, **facts: Any) -> Any:
    """A field of settings that no option sets: a default and bounds."""
    return dataclasses.field(default=default, metadata={"control": Control(**facts)})


@functools.cache
def controls_of(cls: type) -> dict[str, Control]:
    """The controls of a dataclass by name. A field without a declaration has that of the class above."""
    found: dict[str, Control] = {}
    for each in reversed(cls.__mro__):
        if dataclasses.is_dataclass(each):
            declared = {field.name: field.metadata.get("control") for field in dataclasses.fields(each)}
            found |= {name: control for name, control in declared.items() if control is not None}
    return found


def refuse_out_of_range(settings: Any) -> None:
    """Raise a ConfigError if a number in these settings is out of its range."""
    for name, declared in controls_of(type(settings)).items():
        value = getattr(settings, name)
        if isinstance(value, Real):
            default = getattr(type(settings), name)
            fallback = declared.least if declared.neutral is None else declared.neutral
            number = int(value) if isinstance(value, Integral) else float(value)
            declared.refuse(name, number, fallback if default is None else default)
