"""Reads the loss and other numbers of an update from a GPU while the next update is in its queue.

A GPU works through a queue that the processor fills. To read a number at once, the processor waits until the
queue is empty, and then the GPU waits for the processor. So a copy to main memory is put into the queue after
the update, and read when the next update is in the queue.
"""

import torch
from torch import Tensor


def is_asynchronous(device: torch.device) -> bool:
    """True if the device has a queue and results are read later; mps has a queue, but no float64 for them."""
    return device.type not in ("cpu", "meta", "mps")


class Numbers:
    """Numbers that a device computes, for the processor to read later.

    `parts`: tensors of any shapes, on one device. On a CPU they are not copied: do not change them before
    `read`.
    """

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
        """All elements of the parts in order; waits for what computes them, not for later operations."""
        if self._ready is not None:
            self._ready.synchronize()
        return [number for part in self._parts for number in part.reshape(-1).tolist()]
