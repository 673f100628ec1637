"""Importing what a verb needs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["importing"]


@contextmanager
def importing() -> Iterator[None]:
    """Import with nobody looking for garbage: of all that importing torch makes, next to nothing is.

    That takes a tenth off a first translation. Later searches leave out what is there by then.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
