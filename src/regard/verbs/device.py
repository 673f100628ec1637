"""Which device and how many threads; chosen once, said and recorded."""

import torch

from regard.errors import RecipeError, did_you_mean
from regard.verbs.limits import LIMITS, cores

DEVICES = ("auto", "cpu", "cuda", "mps")


def choose_device(name: str = "auto", threads: int | None = None) -> torch.device:
    """The device called `name`; `auto` takes a GPU where there is one. Sets torch's thread count.

    Raises:
        RecipeError: no such device here. UserError: more threads than this machine can use.
    """
    if threads is not None:
        LIMITS["threads"].refuse("threads", threads)
        torch.set_num_threads(threads)
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(kind for kind in ("cuda", "mps", "cpu") if there[kind]))
    if name not in there:
        raise RecipeError(f"unknown device {name!r}", did_you_mean(name, DEVICES))
    if not there[name]:
        raise RecipeError(
            f"device {name} is not available here", 'device="auto" (--device auto) takes the best there is'
        )
    return torch.device(name)


def choose_workers(workers: int | None, device: torch.device, threads: int | None) -> int:
    """How many processes decode; where nobody says it, one for each core of a CPU.

    Who sets the number of threads has chosen how many cores are used: then it is one process.

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
