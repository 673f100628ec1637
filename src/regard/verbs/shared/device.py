"""The device of a runtime, and how many processes decode on it."""

import torch

from regard.errors import RecipeError, did_you_mean
from regard.verbs.shared.limits import LIMITS, cores
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, DEVICES, Runtime


def choose_device(runtime: Runtime = DEFAULT_RUNTIME) -> torch.device:
    """The device of this runtime; "auto" takes a GPU where there is one. Sets PyTorch's thread count.

    Raises:
        RecipeError: this machine has no such device. UserError: more threads than this machine can use.
    """
    name = runtime.device
    if runtime.threads is not None:
        LIMITS["threads"].refuse("threads", runtime.threads)
        torch.set_num_threads(runtime.threads)
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if available[kind]))
    if name not in available:
        raise RecipeError(f"unknown device {name!r}", did_you_mean(name, DEVICES))
    if not available[name]:
        raise RecipeError(
            f"device {name} is not available here", 'device="auto" (--device auto) takes the best there is'
        )
    return torch.device(name)


def choose_workers(workers: int | None, device: torch.device, threads: int | None) -> int:
    """How many processes decode; by default one for each core of a CPU.

    One process where `threads` are set: the user has chosen how many cores to use.

    Raises:
        RecipeError: several, and not on a CPU. UserError: more than this machine can use.
    """
    if workers is not None:
        LIMITS["workers"].refuse("workers", workers)
    if device.type != "cpu":
        if workers is not None and workers > 1:
            raise RecipeError(
                f"workers is {workers}, but several decode on a CPU only",
                'leave workers out, or take device="cpu" (--device cpu)',
            )
        return 1
    if workers is None:
        return 1 if threads is not None else cores()
    return workers
