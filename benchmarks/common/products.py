"""The library of matrix products that a run of benchmarks uses, for all contenders alike.

regard's trainer chooses it by `training.products`: oneDNN if it is clearly faster here than MKL, PyTorch's
default, and as exact. The choice is one line of PyTorch, so the other contenders get it too. PyTorch is
imported only by those who choose, since contenders without it measure their memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.training.products import MatmulPrecision

LIBRARIES: dict[MatmulPrecision, str] = {"highest": "MKL", "medium": "oneDNN"}


def best_setting(d_model: int, threads: int) -> MatmulPrecision:
    """What `regard train` chooses here for a model of this width."""
    import torch

    from regard.training.products import choose_precision

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return choose_precision("auto", d_model, torch.device("cpu"))
    finally:
        torch.set_num_threads(before)


def environment(setting: str) -> dict[str, str]:
    """The variables of a contender's process: they limit oneDNN's cache of kernels, as regard does."""
    if setting == "highest":
        return {}
    from regard.training.products import KERNEL_CACHE_SIZE

    return {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": KERNEL_CACHE_SIZE, "LRU_CACHE_CAPACITY": KERNEL_CACHE_SIZE}


def use(setting: str) -> None:
    """Use this setting in this process."""
    if setting == "highest":
        return  # PyTorch's default
    import torch

    os.environ.update(environment(setting))
    torch.set_float32_matmul_precision(setting)
