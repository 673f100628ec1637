"""Libraries of kernels that come with a wheel, one for each kind of processor: no compiler is needed.

`hatch_build.py` compiles them when a wheel is built. A checkout has none: there the kernels are compiled.
"""

import ctypes
import logging
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.fast.native.compiler import source_digest

FOLDER = Path(__file__).parent / "prebuilt"
CPU_INFO = Path("/proc/cpuinfo")
log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Processors that one library is compiled for: all of this machine type that have these features."""

    name: str
    machine: str  # as `platform.machine()` gives it
    flags: tuple[str, ...]  # of the compiler
    features: frozenset[str]  # as /proc/cpuinfo lists them

    @property
    def file(self) -> str:
        """Name of its library; one made of other C files has another name."""
        return f"kernels-{source_digest()}-{self.name}.so"


X86_64_V2 = frozenset({"sse4_1", "sse4_2", "ssse3", "popcnt", "cx16", "lahf_lm"})
X86_64_V3 = X86_64_V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}
X86_64_V4 = X86_64_V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
TARGETS = (  # the first that fits is used
    Target(
        name="x86-64-v4-vnni",
        machine="x86_64",
        flags=("-march=x86-64-v4", "-mavx512vnni"),
        features=X86_64_V4 | {"avx512_vnni"},
    ),
    Target(name="x86-64-v4", machine="x86_64", flags=("-march=x86-64-v4",), features=X86_64_V4),
    Target(
        name="x86-64-v3-vnni",
        machine="x86_64",
        flags=("-march=x86-64-v3", "-mavxvnni"),
        features=X86_64_V3 | {"avx_vnni"},
    ),
    Target(name="x86-64-v3", machine="x86_64", flags=("-march=x86-64-v3",), features=X86_64_V3),
    Target(
        name="armv8.2-a-dotprod",
        machine="aarch64",
        flags=("-march=armv8.2-a+dotprod",),
        features=frozenset({"asimd", "asimddp", "asimdrdm", "atomics", "crc32"}),
    ),
    Target(name="armv8-a", machine="aarch64", flags=("-march=armv8-a",), features=frozenset({"asimd"})),
)


def load_prebuilt() -> tuple[ctypes.CDLL, Target] | None:
    """The library for this processor, and what it was compiled for; None if there is none that loads."""
    for target in fitting_targets():
        file = FOLDER / target.file
        if not file.is_file():
            continue
        try:
            return ctypes.CDLL(str(file)), target
        except OSError as error:  # another C library, or a PyTorch without OpenMP
            log.info("%s cannot be loaded: %s", file, error)
    return None


def fitting_targets() -> Iterator[Target]:
    """The targets that this processor has all features of, the fastest first."""
    features = _processor_features()
    for target in TARGETS:
        if target.machine == platform.machine() and target.features <= features:
            yield target


def _processor_features() -> frozenset[str]:
    """The features of the first core by /proc/cpuinfo; none on other systems than Linux."""
    try:
        text = CPU_INFO.read_text("utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, features = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(features.split())
    return frozenset()
