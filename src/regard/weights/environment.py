"""The environment on which results depend in their bits: stored with a checkpoint, compared on resume."""

import platform
from collections.abc import Mapping
from typing import Any

import torch


def environment() -> dict[str, Any]:
    """The facts that must be equal for a resumed run to give the same bits.

    Even another number of threads changes the last bits of a matrix product.
    """
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def environment_differences(manifest: Mapping[str, Any]) -> list[str]:
    """One line for each difference to the environment in which `manifest` was written."""
    before, now = manifest.get("environment"), environment()
    if not isinstance(before, dict):
        return ["the checkpoint does not record the machine on which it was written"]
    return [
        f"{name.replace('_', ' ')}: {before.get(name)} then, {now[name]} now"
        for name in now
        if before.get(name) != now[name]
    ]
