"""The memory of this machine: what takes more of it is refused by name before it is read."""

import os
from pathlib import Path

from regard.errors import DataError


def memory() -> int:
    """Bytes of memory of this machine; 0 where that is not told."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        return 0


def refuse_beyond_memory(size: int, path: Path) -> None:
    """Raise a DataError if what a file unpacks to is more than half of the memory."""
    most = memory() // 2
    if most and size > most:
        raise DataError(
            f"{path} holds {size:,} bytes, more than {most:,}, half of this machine's memory",
            "use a machine with more memory, or a part of the data",
        )
