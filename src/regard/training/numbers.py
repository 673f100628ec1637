"""The numbers of an update, which a GPU computes: read by the processor without waiting for its queue.

A GPU works through a queue that the processor fills. Reading a number at once makes the processor wait until
the queue is empty, and then the GPU waits for the processor. So the numbers of an update are copied by the
queue itself, and read when the next update is in the queue.
"""

import torch
from torch import Tensor


def is_asynchronous(device: torch.device) -> bool:
    """True if operations of this device are queued, so that reading a result makes the processor wait."""
    return device.type not in ("cpu", "meta", "mps")


class Numbers:
    """Numbers on their way from a device to the processor; on a CPU they are there."""

    def __init__(self, *parts: Tensor) -> None:
        device = parts[0].device
        self._ready: torch.cuda.Event | None = None
        if not is_asynchronous(device):
            self._parts = list(parts)
            return
        together = torch.cat([part.double().reshape(-1) for part in parts])
        here = torch.empty(len(together), dtype=torch.float64, pin_memory=device.type == "cuda")
        here.copy_(together, non_blocking=True)
        self._parts = [here]
        if device.type == "cuda":
            self._ready = torch.cuda.Event()
            self._ready.record(torch.cuda.current_stream(device))

    def read(self) -> list[float]:
        """The numbers; waits for the operations that compute them, and not for later ones."""
        if self._ready is not None:
            self._ready.synchronize()
        return [number for part in self._parts for number in part.reshape(-1).tolist()]
