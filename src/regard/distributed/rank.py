"""Where a process stands among those that train together, as its environment says."""

import os
from dataclasses import dataclass

import torch

from regard.errors import RecipeError

OURS = "REGARD_WORKER"  # rank, number and meeting place of a process that `regard train --workers` started
PARENT = "REGARD_PARENT"  # the number of the process that started it
TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # of one that torchrun, or its like, did


@dataclass(frozen=True, kw_only=True)
class Rank:
    """`rank` of `size` processes, `local_rank` among those of this machine; `meeting` is a URL of torch's."""

    rank: int
    size: int
    local_rank: int
    meeting: str

    @property
    def is_started_by_torchrun(self) -> bool:
        """Or by its like, and not by `regard train --workers`."""
        return self.meeting.startswith("env:")

    def device(self, chosen: torch.device) -> torch.device:
        """The GPU of this process, where GPUs were chosen: each has its own."""
        if chosen.type != "cuda" or self.size == 1:
            return chosen
        there = torch.cuda.device_count()
        if self.local_rank >= there:
            raise RecipeError(
                f"process {self.local_rank} of this machine has no GPU: it has {there}",
                "start as many processes on a machine as it has GPUs, or give --device cpu",
            )
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)


ALONE = Rank(rank=0, size=1, local_rank=0, meeting="")


def own_rank() -> Rank:
    """The place of this process; `ALONE` where nobody gave it one.

    Raises:
        RecipeError: the environment gives it half a place, or one that is none.
    """
    if OURS in os.environ:
        rank, size, meeting = os.environ[OURS].split(" ", 2)
        return Rank(rank=int(rank), size=int(size), local_rank=int(rank), meeting=meeting)
    if not {"RANK", "WORLD_SIZE"} <= os.environ.keys():
        return ALONE
    hint = "start the run by torchrun, which sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT"
    if missing := [name for name in TORCHRUN if name not in os.environ]:
        raise RecipeError(f"RANK is set and {missing[0]} is not", hint)
    numbers = [os.environ[name] for name in ("RANK", "WORLD_SIZE")]
    numbers.append(os.environ.get("LOCAL_RANK", numbers[0]))
    if not all(number.isdecimal() for number in numbers) or int(numbers[0]) >= int(numbers[1]):
        raise RecipeError(f"RANK={numbers[0]} is no place among WORLD_SIZE={numbers[1]} processes", hint)
    rank, size, local_rank = map(int, numbers)
    return Rank(rank=rank, size=size, local_rank=local_rank, meeting="env://")
