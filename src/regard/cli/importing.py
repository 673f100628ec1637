"""Importing what a verb needs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["importing"]


@contextmanager
def importing() -> Iterator[None]:
    """Import with nobody looking for garbage: of all that importing torch makes, next to nothing is.

    A first translation is the sooner there (`docs/log.md`). Later searches leave out what is there by then.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
