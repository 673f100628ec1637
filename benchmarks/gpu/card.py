"""The card of a measurement, and its peak speed in bfloat16: by its name, and of a large matrix product."""

import re
import time
from typing import Any

import torch

# dense bfloat16 products by the data sheets, in TFLOP/s; the first name that is found counts
PEAKS = {
    "H100 PCIe": 756.0,
    "H100 NVL": 835.0,
    "H100": 989.0,
    "H200": 989.0,
    "B200": 2250.0,
    "A100": 312.0,
    "A10G": 70.0,
    "L40S": 362.0,
    "L4": 121.0,
    "RTX 4090": 165.0,
    "RTX 3090": 71.0,
}
SIZE, TINY_SIZE, SECONDS = 8192, 256, 2.0


def card_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def file_name(card: str) -> str:
    """The card's name as that of a file."""
    return re.sub(r"[^a-z0-9]+", "-", card.lower()).strip("-")


def peak(device: torch.device, *, tiny: bool = False) -> dict[str, Any]:
    """The peak speed in TFLOP/s: measured, by the data sheet (None if unknown), and the larger of both."""
    size = TINY_SIZE if tiny else SIZE
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    left @ right
    synchronize(device)
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < (0.05 if tiny else SECONDS):
        for _ in range(10):
            left @ right
        synchronize(device)
        count += 10
    measured = 2 * size**3 * count / (time.perf_counter() - began) / 1e12
    name = card_name(device)
    listed = next((speed for part, speed in PEAKS.items() if part in name), None)
    return {"measured": measured, "listed": listed, "used": max(measured, listed or 0.0)}


def synchronize(device: torch.device) -> None:
    """Waits until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def memory_gib(device: torch.device) -> float | None:
    """The peak of allocated memory since the last call; None if there is no GPU."""
    if device.type != "cuda":
        return None
    found = torch.cuda.max_memory_allocated(device) / 2**30
    torch.cuda.reset_peak_memory_stats(device)
    return round(found, 2)
