"""Importing a command's modules without garbage collection, which makes it quicker."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["importing"]


@contextmanager
def importing() -> Iterator[None]:
    """Turn garbage collection off during imports, since importing torch makes next to no garbage.

    This shortens the time to a first translation (`docs/log.md`). Later collections skip the objects that
    exist by then.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
