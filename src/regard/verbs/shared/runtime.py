"""The runtime of a model: device, threads and precision, chosen once where a command begins.

PyTorch is not imported here, so that `--help` is quick.
"""

from dataclasses import dataclass
from typing import Literal

from regard.verbs.shared.keyword_fields import keyword

DEVICES = ("auto", "cpu", "cuda", "mps")
Precision = Literal["float32", "bfloat16", "int8"]


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Where a model runs: its device, and the threads of the CPU.

    PyTorch has one number of threads for the process. A call such as `regard.translate` sets it back at its
    end; what `regard.load` and `regard.look` give, and objects such as a `Translator`, leave it set.
    """

    device: str = keyword(
        "auto", '"cpu", "cuda" or "mps"; "auto" takes a GPU where there is one.', choices=DEVICES
    )
    threads: int | None = keyword(None, "CPU threads. [default: PyTorch's choice]")

    @property
    def changes_model(self) -> bool:
        """True if the weights are changed, so that a loaded model must be copied first."""
        return False


@dataclass(frozen=True, kw_only=True)
class DecodingRuntime(Runtime):
    """Where and how a model decodes. With int8, which needs a CPU, linear layers are quantised."""

    precision: Literal["float32", "bfloat16", "int8"] = keyword(
        "float32",
        'Of matrix products: "float32"; faster, a little less exact: "int8" on a CPU, "bfloat16" on a GPU.',
    )

    @property
    def changes_model(self) -> bool:
        return self.precision != "float32"


DEFAULT_RUNTIME = Runtime()
DEFAULT_DECODING_RUNTIME = DecodingRuntime()
