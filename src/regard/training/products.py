"""The matrix products of training on a CPU: the fastest float32 library, or bfloat16 by name.

PyTorch on a CPU multiplies with MKL, or with oneDNN if `set_float32_matmul_precision("medium")` allows it. On
AMD's Zen 5 oneDNN is much faster than MKL with the same error. On processors with AMX the same setting means
bfloat16, whose error is much larger, so speed and error are always measured.

oneDNN compiles a kernel for each shape and caches a thousand of them, which with batches of all lengths takes
gigabytes. The cache is limited here: compiling a kernel again costs less than a tenth of a product.

Products in bfloat16 are faster still and less exact, so they are used only where a recipe asks for them:
`products = "bfloat16"` (`fast/bfloat16_products.py`).
"""

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from statistics import median
from typing import Literal

import torch
from torch import Tensor

from regard.errors import RecipeError
from regard.fast.bfloat16_products import bfloat16_products

Products = Literal["auto", "float32", "bfloat16"]
# "highest" and "medium" are values of torch.set_float32_matmul_precision
MatmulPrecision = Literal["highest", "medium", "bfloat16"]

PRODUCT_ROWS = 1024
REPEATS = 7
MIN_SPEED_UP = 1.5  # the speed-up from which oneDNN is used; less could be noise and is not worth other bits
KERNEL_CACHE_SIZE = "32"  # size of the kernel caches of oneDNN and of PyTorch, which read it when first used
FLOAT32_ERROR = 1e-5  # relative; float32 has about 3e-7, bfloat16 3e-3
MIN_D_MODEL = 64  # for smaller models the library makes no difference


def choose_precision(products: Products, d_model: int, device: torch.device) -> MatmulPrecision:
    """The value of `torch.set_float32_matmul_precision` for a model of this width on this machine.

    "float32" is PyTorch's default. "bfloat16" rounds the factors of linear layers, on a processor with such
    instructions. "auto" measures matrix products of the model's width for some tens of
    milliseconds and chooses oneDNN if it is clearly faster (`MIN_SPEED_UP`) and as accurate as float32.

    Raises:
        RecipeError: "bfloat16" on a GPU, or on a processor without its instructions.
    """
    if products == "bfloat16":
        refuse_bfloat16_products(device)
        return "bfloat16"
    if products == "float32" or device.type != "cpu" or d_model < MIN_D_MODEL:
        return "highest"
    return (
        "medium" if is_exact("medium", d_model) and speed_up("medium", d_model) >= MIN_SPEED_UP else "highest"
    )


def has_bfloat16() -> bool:
    """True if this processor has instructions for products of bfloat16 (AVX512-BF16, AMX or Arm's)."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()) and (
        torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported() or _is_arm()
    )


def _is_arm() -> bool:
    return platform.machine() in ("aarch64", "arm64")


def refuse_bfloat16_products(device: torch.device) -> None:
    """Raises a RecipeError if products = "bfloat16" is impossible on this device."""
    if device.type != "cpu":
        raise RecipeError(
            f'training.products = "bfloat16" is for a CPU, not for {device.type}',
            'on a GPU training.precision = "bfloat16" does it, and "auto" where the GPU has it',
        )
    if not has_bfloat16():
        raise RecipeError(
            'training.products = "bfloat16": this processor has no instructions for bfloat16',
            'leave it out ("auto" takes the fastest float32 products), or use one with AVX512-BF16 or AMX',
        )


def is_exact(setting: MatmulPrecision, d_model: int) -> bool:
    """True if the error of a product on this machine, compared with float64, is that of float32."""
    x, weight = _factors(d_model)
    exact = x.double() @ weight.double()
    with matmul_precision(setting):
        return float((x @ weight - exact).norm() / exact.norm()) < FLOAT32_ERROR


def speed_up(setting: MatmulPrecision, d_model: int) -> float:
    """The speed-up over "highest": the ratio of the medians of interleaved measurements."""
    x, weight = _factors(d_model)
    seconds: dict[MatmulPrecision, list[float]] = {"highest": [], setting: []}
    for _ in range(REPEATS):
        for each, measured in seconds.items():
            with matmul_precision(each):
                started = time.perf_counter()
                torch.mm(x, weight)
                measured.append(time.perf_counter() - started)
    return median(seconds["highest"][1:]) / median(seconds[setting][1:])


def _factors(d_model: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(PRODUCT_ROWS, d_model, generator=generator)
    return x, torch.randn(d_model, 4 * d_model, generator=generator)


@contextmanager
def matmul_precision(setting: MatmulPrecision) -> Iterator[None]:
    """A context with this setting of matrix products; the previous one is restored afterwards."""
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", KERNEL_CACHE_SIZE)
    os.environ.setdefault("LRU_CACHE_CAPACITY", KERNEL_CACHE_SIZE)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium" if setting == "bfloat16" else setting)
    replaced = setting == "bfloat16" and not torch.cpu._is_amx_tile_supported()
    try:
        with bfloat16_products() if replaced else nullcontext():
            yield
    finally:
        torch.set_float32_matmul_precision(before)
