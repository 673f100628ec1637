"""The machine of a measurement: processor, memory, versions of all packages that take part."""

import os
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

UNITS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16")
PACKAGES = (
    "regard", "torch", "transformers", "ctranslate2", "x-transformers", "eole", "tokenizers", "sacrebleu",
)  # fmt: skip


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> dict[str, Any]:
    processor = _fields("/proc/cpuinfo")
    flags = processor.get("flags", "").split()
    return {
        "cpu": _named(processor),
        "cores": cores(),
        "units": [unit for unit in UNITS if unit in flags],
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load_before": round(os.getloadavg()[0], 2),
    }


def _named(processor: Mapping[str, str]) -> str:
    """The processor's name. In a virtual machine it may be its maker's alone, so family and model follow."""
    name = processor.get("model name") or platform.processor()
    if "cpu family" not in processor:
        return name
    return f"{name} (family {processor['cpu family']}, model {processor['model']})"


def versions() -> dict[str, str]:
    """The version of Python and of each package; "not installed" where it is not."""
    return {"python": platform.python_version(), **{package: version(package) for package in PACKAGES}}


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _fields(path: str) -> dict[str, str]:
    """The first record of a file of `name : value` lines; empty where the system has no such file."""
    if sys.platform != "linux":
        return {}
    first = Path(path).read_text().split("\n\n")[0]
    parted = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in parted}
