"""The memory of a value: arrays, and the Python types of JSON."""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np


def memory_size(value: Any) -> int:
    """The bytes of a value with its contents; an object that occurs several times counts each time."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    size = sys.getsizeof(value)
    if isinstance(value, Mapping):
        return size + sum(memory_size(key) + memory_size(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return size + sum(map(memory_size, value))
    return size
