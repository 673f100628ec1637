"""The ranges of the numbers that verbs take, and the reasons for them.

The command line and the Python calls use this one table; the ranges of decoding controls come from
`decoding/control_fields.py`. PyTorch is not imported here, so that `--help` is quick.
"""

import os
from dataclasses import dataclass

from regard.decoding.control import MOST_CHARACTERS, MOST_HYPOTHESES
from regard.decoding.controls import CONTROLS_BY_NAME
from regard.errors import UserError

THREADS_PER_CORE = 4


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The least and the greatest value of a number; `why`: the reason for the greatest."""

    least: int | float = 1
    most: int
    why: str

    def refuse(self, name: str, value: int | float) -> None:
        """Raise a UserError if the value is out of range, or NaN."""
        if not value >= self.least:
            raise UserError(f"{name} is {value}, but must be at least {self.least}", f"{name} = {self.least}")
        if value > self.most:
            raise UserError(
                f"{name} is {value}, but must be at most {self.most:,}",
                f"{name} = {self.most}, or less: {self.why}",
            )


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _of_cores(what: str) -> Limit:
    found = cores()
    of = "the core" if found == 1 else f"each of the {found} cores"
    return Limit(
        most=THREADS_PER_CORE * found, why=f"{THREADS_PER_CORE} {what} for {of} that this process may use"
    )


WHY = {
    "hypotheses": "more of one text do not fit into memory",
    "tokens": "its keys and values must fit into memory",
}
_HYPOTHESES = Limit(most=MOST_HYPOTHESES, why=WHY["hypotheses"])
_SIZE = Limit(most=10_000, why="a figure has no room for more")
LIMITS: dict[str, Limit] = {
    "threads": _of_cores("threads"),
    "workers": _of_cores("processes"),
    "cores": Limit(most=cores(), why="as many as this process may use"),
    "batch_tokens": Limit(most=1_000_000, why="a batch must fit into memory"),
    "n_best": _HYPOTHESES,
    "num": _HYPOTHESES,
    "top": Limit(most=1_000_000, why="no model has more classes or tokens"),
    "processes": Limit(most=100_000, why="each has a connection to one process"),
    "part_megabytes": Limit(least=0.001, most=10_000, why="a part that fails is begun again"),
    "last": Limit(most=10_000, why="no run keeps more checkpoints"),
    "context": Limit(least=0, most=10_000_000, why="no window is longer"),
    "length": _SIZE,
    "d_model": _SIZE,
    "num_heads": Limit(most=1000, why="a figure has no room for more"),
    "port": Limit(least=0, most=65_535, why="there are no others"),
}
LIMITS |= {
    name: Limit(least=int(control.least or 0), most=int(control.most), why=WHY[control.unit])
    for name, control in CONTROLS_BY_NAME.items()
    if control.unit and control.most is not None
}
MAX_LENGTHS = {"prefix": MOST_CHARACTERS}  # of texts


def refuse_too_many_threads(workers: int, threads: int) -> None:
    """Raise a UserError if all processes together would have too many threads."""
    limit, together = LIMITS["threads"], workers * threads
    if together > limit.most:
        raise UserError(
            f"{workers} workers of {threads} threads have {together:,}, but may have {limit.most:,}",
            f"fewer workers or threads: {limit.why}",
        )


def refuse_long_text(name: str, text: str) -> None:
    """Raise a UserError if the text of this parameter is too long."""
    if name in MAX_LENGTHS and len(text) > MAX_LENGTHS[name]:
        raise UserError(f"{name} has {len(text):,} characters, more than {MAX_LENGTHS[name]:,}", "shorten it")
