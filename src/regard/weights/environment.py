"""The machine that bits depend on: recorded with a checkpoint, compared when it is resumed."""

import platform
from collections.abc import Mapping
from typing import Any

import torch


def environment() -> dict[str, Any]:
    """What must be equal for a resumed run to give the same bits.

    Changing the number of threads alone changes the last bits of a matrix product.
    """
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def environment_differences(manifest: Mapping[str, Any]) -> list[str]:
    """One line for each thing that was otherwise when `manifest` was written."""
    before, now = manifest.get("environment"), environment()
    if not isinstance(before, dict):
        return ["the checkpoint does not say on what machine it was written"]
    return [
        f"{name.replace('_', ' ')}: {before.get(name)} then, {now[name]} now"
        for name in now
        if before.get(name) != now[name]
    ]
