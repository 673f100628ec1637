"""How much memory a value takes: arrays, and the Python objects that JSON is made of."""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np


def memory_size(value: Any) -> int:
    """The bytes of a value with all that is in it; what stands in several places counts in each."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    own = sys.getsizeof(value)
    if isinstance(value, Mapping):
        return own + sum(memory_size(key) + memory_size(held) for key, held in value.items())
    if isinstance(value, list | tuple):
        return own + sum(map(memory_size, value))
    return own
