"""Importing a command's modules without garbage collection, which makes it quicker."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

__all__ = ["importing"]


@contextmanager
def importing() -> Iterator[None]:
    """Turn garbage collection off during imports, since importing torch makes next to no garbage.

    This shortens the time to a first translation (`docs/log.md`). Collections after a process's first command
    skip the objects that exist by then.
    """
    gc.disable()
    try:
        yield
    finally:
        _freeze_once()
        gc.enable()


@cache
def _freeze_once() -> None:
    """Exclude all that exists from collection; at each command it would keep what earlier ones left, too."""
    gc.freeze()
