"""The pieces of `make gpu`: each a process of less than ten minutes, forty together."""

import importlib.util
import os
import sys
from dataclasses import dataclass

CHECK, BENCH, RECIPE = GROUPS = ("check", "bench", "recipe")
PYTEST = (sys.executable, "-m", "pytest", "-m", "device or gpu", "-p", "no:cacheprovider", "-q", "-rs")
if importlib.util.find_spec("xdist"):
    PYTEST = (*PYTEST, "-n", str(min(12, os.cpu_count() or 1)))
if importlib.util.find_spec("pytest_benchmark"):  # it warns of xdist, and warnings are errors
    PYTEST = (*PYTEST, "-p", "no:benchmark")


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A command. One of `measures` prints its rows as a line of JSON; another only succeeds or fails."""

    name: str
    group: str
    command: tuple[str, ...]
    minutes: float  # after which it is ended
    measures: bool = False


def pieces(device: str, *, tiny: bool = False, seconds: float | None = None) -> list[Piece]:
    """All pieces in order. `tiny`: sizes with which a CPU needs seconds, to try the programs.

    `seconds`: how long each contender trains.
    """
    size = ("--tiny",) if tiny else ()
    trained = () if seconds is None else ("--seconds", str(seconds))

    def measured(module: str, *arguments: str) -> tuple[str, ...]:
        return (sys.executable, "-m", f"benchmarks.gpu.{module}", *arguments, "--device", device, *size)

    return [
        Piece(name="laws", group=CHECK, command=(*PYTEST, "tests/laws", "tests/layers"), minutes=5),
        Piece(name="training", group=CHECK, command=(*PYTEST, "tests/training"), minutes=5),
        Piece(name="kernels and graphs", group=CHECK, command=(*PYTEST, "tests/fast"), minutes=3),
        Piece(name="NCCL on one GPU", group=CHECK, command=(*PYTEST, "tests/distributed"), minutes=2),
        *(
            Piece(
                name=f"training {model}",
                group=BENCH,
                command=(*measured("train", model), *trained),
                minutes=4,
                measures=True,
            )
            for model in ("base", "gpt2", "big")
        ),
        *(
            Piece(
                name=f"decoding {work}",
                group=BENCH,
                command=measured("decode", work),
                minutes=5,
                measures=True,
            )
            for work in ("text", "pairs")
        ),
        Piece(name="recipe", group=RECIPE, command=measured("recipe"), minutes=3, measures=True),
    ]
