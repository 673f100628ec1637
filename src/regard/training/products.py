"""Which library computes the matrix products of float32 in training: the fastest that is as exact.

PyTorch on a CPU multiplies by MKL, or by oneDNN where `set_float32_matmul_precision("medium")` allows it.
On AMD's Zen 5 oneDNN has 2.3 times MKL's speed and the same error. On processors with AMX the same setting
means bfloat16, whose error is ten thousand times as large, so it is measured and never assumed.

oneDNN compiles a kernel for each shape and keeps a thousand of them, which with batches of all lengths took
3 GB in ten minutes of training. Few are kept here: compiling them again costs less than a tenth of a product.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Literal

import torch
from torch import Tensor

Products = Literal["auto", "float32"]
MatmulPrecision = Literal["highest", "medium"]  # as torch.set_float32_matmul_precision calls them

ROWS = 1024
REPEATS = 7
GAIN = 1.5  # of one shape, whose kernel is compiled once; less is not worth other bits, and could be noise
KERNELS = "32"  # that are kept, by oneDNN and by PyTorch above it; both ask when they are first used
FLOAT32_ERROR = 1e-5  # relative; float32's own is some 3e-7, bfloat16's 3e-3
SMALLEST_D_MODEL = 64  # products of smaller models are no matter of libraries


def choose_precision(products: Products, d_model: int, device: torch.device) -> MatmulPrecision:
    """What to give `torch.set_float32_matmul_precision` for a model of this width on this machine.

    "float32" is PyTorch's default. "auto" multiplies matrices of the model's width for some tens of
    milliseconds and takes oneDNN where it is at least 1.5 times as fast and as exact as float32.
    """
    if products == "float32" or device.type != "cpu" or d_model < SMALLEST_D_MODEL:
        return "highest"
    return "medium" if is_exact("medium", d_model) and gain("medium", d_model) >= GAIN else "highest"


def is_exact(precision: MatmulPrecision, d_model: int) -> bool:
    """True if a product on this machine is as close to that of double precision as float32 can be."""
    x, weight = _factors(d_model)
    exact = x.double() @ weight.double()
    with matmul_precision(precision):
        return float((x @ weight - exact).norm() / exact.norm()) < FLOAT32_ERROR


def gain(precision: MatmulPrecision, d_model: int) -> float:
    """How many times as fast as "highest": the ratio of the medians of measurements that take turns."""
    x, weight = _factors(d_model)
    seconds: dict[MatmulPrecision, list[float]] = {"highest": [], precision: []}
    for _ in range(REPEATS):
        for each, measured in seconds.items():
            with matmul_precision(each):
                began = time.perf_counter()
                torch.mm(x, weight)
                measured.append(time.perf_counter() - began)
    return median(seconds["highest"][1:]) / median(seconds[precision][1:])


def _factors(d_model: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, d_model, generator=generator)
    return x, torch.randn(d_model, 4 * d_model, generator=generator)


@contextmanager
def matmul_precision(precision: MatmulPrecision) -> Iterator[None]:
    """Multiply by the library that `precision` stands for; as before afterwards."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", KERNELS)
    os.environ.setdefault("LRU_CACHE_CAPACITY", KERNELS)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
