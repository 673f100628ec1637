"""Where a model computes, and how: what translating, summarizing and generating are told alike."""

from dataclasses import dataclass, field

from regard.verbs.precision import Precision


@dataclass(frozen=True, kw_only=True)
class Computing:
    """The device, `auto` for the best there is; threads of its CPU, None for as many as torch takes.

    With precision "int8" products are of whole numbers of 8 bits, on a CPU.
    """

    device: str = field(
        default="auto", metadata={"help": '"cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.'}
    )
    threads: int | None = field(default=None, metadata={"help": "CPU threads. [default: PyTorch's choice]"})
    precision: Precision = field(
        default="float32",
        metadata={
            "help": 'Of products: "float32"; "int8" is faster on a CPU, a little less exact, as are scores.'
        },
    )


USUAL = Computing()
