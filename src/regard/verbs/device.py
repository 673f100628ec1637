"""Which device and how many threads; chosen once, said and recorded."""

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
