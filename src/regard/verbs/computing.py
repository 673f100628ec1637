"""Where a model computes, and how: what translating, summarizing and generating are told alike."""

from dataclasses import dataclass

from regard.verbs.precision import Precision


@dataclass(frozen=True, kw_only=True)
class Computing:
    """The device, `auto` for the best there is; threads of its CPU, None for as many as torch takes.

    With precision "int8" products are of whole numbers of 8 bits, on a CPU.
    """

    device: str = "auto"
    threads: int | None = None
    precision: Precision = "float32"


USUAL = Computing()
