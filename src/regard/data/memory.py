"""The memory of this machine, and the refusal of files that would not fit into it."""

import os
from pathlib import Path

from regard.errors import DataError


def total_memory() -> int:
    """The physical memory of this machine in bytes; 0 if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        return 0


def refuse_beyond_memory(size: int, path: str | Path) -> None:
    """Raises a DataError if the unpacked `size` of a file, in bytes, is more than half of the memory."""
    limit = total_memory() // 2
    if limit and size > limit:
        raise DataError(
            f"{path} holds {size:,} bytes, more than {limit:,}, half of this machine's memory",
            "use a machine with more memory, or less data",
        )
