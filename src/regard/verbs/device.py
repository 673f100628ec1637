"""Which device and how many threads; chosen once, said and recorded."""

import os

import torch

from regard.errors import RecipeError, did_you_mean

DEVICES = ("auto", "cpu", "cuda", "mps")


def choose_device(name: str = "auto", threads: int | None = None) -> torch.device:
    """The device called `name`; `auto` takes a GPU where there is one. Sets torch's thread count.

    Raises:
        RecipeError: no such device here.
    """
    if threads is not None:
        if threads < 1:
            raise RecipeError(
                f"--threads must be 1 or more, not {threads}", "leave it out for torch's own choice"
            )
        torch.set_num_threads(threads)
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if there[kind]))
    if name not in there:
        raise RecipeError(f"unknown device {name!r}", did_you_mean(name, DEVICES))
    if not there[name]:
        raise RecipeError(f"device {name} is not available here", "--device auto takes the best there is")
    return torch.device(name)


def choose_workers(workers: int | None, device: torch.device, threads: int | None) -> int:
    """How many processes decode; where nobody says it, one for each core of a CPU.

    Who sets the number of threads has chosen how many cores are used: then it is one process.

    Raises:
        RecipeError: several, and not on a CPU.
    """
    if device.type != "cpu":
        if workers is not None and workers > 1:
            raise RecipeError(f"--workers {workers} decode on a CPU only", "leave it out, or --device cpu")
        return 1
    if workers is None:
        return 1 if threads is not None else cores_here()
    if workers < 1:
        raise RecipeError(f"--workers must be 1 or more, not {workers}", "leave it out for one a core")
    return workers


def cores_here() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
