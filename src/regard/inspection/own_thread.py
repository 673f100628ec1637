"""Hooks of modules that act in one thread, so that threads which share a model do not meet in it."""

from collections.abc import Callable
from functools import wraps
from threading import get_ident
from typing import Any


def in_this_thread(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A forward hook or pre-hook that acts when this thread calls the module, and does nothing in others."""
    owner = get_ident()

    @wraps(hook)
    def guarded(*inputs: Any, **named: Any) -> Any:
        return hook(*inputs, **named) if get_ident() == owner else None

    return guarded
