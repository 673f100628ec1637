"""The peak speed of the processor: that of plain matrix products, measured in the same run."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.common.products import LIBRARIES
from regard.training.products import MatmulPrecision, is_exact, matmul_precision

SQUARES = (1024, 2048)
SHAPES = {  # rows, in, out: of a training step of 4,096 tokens, and a decoding step of 32 rows
    "linear 4096x256x1024": (4096, 256, 1024),
    "output 4096x256x8000": (4096, 256, 8000),
    "weight gradient 1024x4096x256": (1024, 4096, 256),
    "step 32x256x1024": (32, 256, 1024),
    "row 1x256x1024": (1, 256, 1024),
}


class Peak:
    """A contender that computes only matrix products; its rate is the upper bound for all others."""

    def __init__(self, *, threads: int) -> None:
        torch.set_num_threads(threads)
        self._settings = [setting for setting in LIBRARIES if is_exact(setting, SQUARES[0])]
        self._operands = {f"square {n}": _operands(n, n, n, torch.float32) for n in SQUARES}
        self._shapes = {name: _operands(*shape, torch.float32) for name, shape in SHAPES.items()}

    def round(self, seconds: float) -> dict[str, Any]:
        """GFLOP/s of the fastest product of square matrices, by the fastest library of float32's accuracy."""
        each = seconds / len(SQUARES) / len(self._settings)
        rates = {
            f"{name}, {LIBRARIES[setting]}": self._rate_of(setting, both, each)
            for name, both in self._operands.items()
            for setting in self._settings
        }
        return {"seconds": 1.0, "gflop": max(rates.values()), "rates": rates}

    def _rate_of(self, setting: MatmulPrecision, both: tuple[Tensor, Tensor], seconds: float) -> float:
        with matmul_precision(setting):
            return _rate(*both, seconds)

    def shapes(self, seconds: float) -> dict[str, float]:
        """GFLOP/s of products of the workload's shapes, and of square matrices in bfloat16 and int8."""
        found = {name: _rate(*both, seconds) for name, both in self._shapes.items()}
        found["square 1024 bfloat16"] = _rate(*_operands(1024, 1024, 1024, torch.bfloat16), seconds)
        return found | {"square 1024 int8": _int8(1024, seconds)}


def _operands(rows: int, width: int, out: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, width).to(dtype), torch.randn(width, out).to(dtype)


def _rate(left: Tensor, right: Tensor, seconds: float) -> float:
    work = 2 * left.size(0) * left.size(1) * right.size(1) / 1e9
    result = left @ right
    return work / _least(lambda: torch.mm(left, right, out=result), seconds)


def _int8(size: int, seconds: float) -> float:
    left, right = (torch.randint(-9, 9, (size, size), dtype=torch.int8) for _ in range(2))
    return 2 * size**3 / 1e9 / _least(lambda: torch._int_mm(left, right), seconds)


def _least(product: Callable[[], Any], seconds: float) -> float:
    """The shortest time of one product among those that fit into `seconds`, three at least."""
    end, least, count = time.perf_counter() + seconds, float("inf"), 0
    while count < 3 or time.perf_counter() < end:
        began = time.perf_counter()
        product()
        least, count = min(least, time.perf_counter() - began), count + 1
    return least
