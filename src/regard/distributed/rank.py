"""The rank of a process in distributed training, from its environment variables."""

import os
from dataclasses import dataclass

import torch

from regard.errors import RecipeError

WORKER_VARIABLE = (
    "REGARD_WORKER"  # rank, size and rendezvous URL of a process started by `regard train --workers`
)
PARENT_VARIABLE = "REGARD_PARENT"  # the id of the process that started it
# set by torchrun and similar launchers
TORCHRUN_VARIABLES = (
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The rank of a process."""

    rank: int  # from 0
    size: int  # the number of processes
    local_rank: int  # among the processes of this machine
    rendezvous_url: str  # the rendezvous URL of torch

    @property
    def is_started_by_torchrun(self) -> bool:
        """True if torchrun or a similar launcher started the process, not `regard train --workers`."""
        return self.rendezvous_url.startswith("env:")

    @property
    def is_restarted(self) -> bool:
        """True if torchrun has started the process in place of one that has failed."""
        return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") not in ("", "0")

    def device(self, chosen: torch.device) -> torch.device:
        """The device of this process: its own GPU if GPUs were chosen.

        Raises:
            RecipeError: the machine has fewer GPUs than processes.
        """
        if chosen.type != "cuda" or self.size == 1:
            return chosen
        available = torch.cuda.device_count()
        if self.local_rank >= available:
            raise RecipeError(
                f"process {self.local_rank} has no GPU: this machine has {available}",
                "start at most as many processes on a machine as it has GPUs, or give --device cpu",
            )
        torch.cuda.set_device(self.local_rank)
        return torch.device("cuda", self.local_rank)


ALONE = Rank(rank=0, size=1, local_rank=0, rendezvous_url="")


def own_rank() -> Rank:
    """The rank of this process; `ALONE` if the environment has none.

    Raises:
        RecipeError: the environment variables are incomplete or invalid.
    """
    if WORKER_VARIABLE in os.environ:
        rank, size, rendezvous_url = os.environ[WORKER_VARIABLE].split(" ", 2)
        return Rank(rank=int(rank), size=int(size), local_rank=int(rank), rendezvous_url=rendezvous_url)
    if not {"RANK", "WORLD_SIZE"} <= os.environ.keys():
        return ALONE
    hint = "start the run by torchrun, which sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT"
    if missing := [name for name in TORCHRUN_VARIABLES if name not in os.environ]:
        raise RecipeError(f"RANK is set, but {missing[0]} is not", hint)
    numbers = [os.environ[name] for name in ("RANK", "WORLD_SIZE")]
    numbers.append(os.environ.get("LOCAL_RANK", numbers[0]))
    if not all(number.isdecimal() for number in numbers) or int(numbers[0]) >= int(numbers[1]):
        raise RecipeError(f"RANK={numbers[0]} is not below WORLD_SIZE={numbers[1]}", hint)
    rank, size, local_rank = map(int, numbers)
    return Rank(rank=rank, size=size, local_rank=local_rank, rendezvous_url="env://")
