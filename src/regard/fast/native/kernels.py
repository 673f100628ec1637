"""The functions of the C files, and whether this machine has them."""

import ctypes
import functools

import torch

from regard.fast.native.build import library

_ADDRESS, _COUNT, _FLAG = ctypes.c_void_p, ctypes.c_long, ctypes.c_int
_TAKES = {
    "activate": [_ADDRESS, _COUNT, _ADDRESS, _COUNT, _COUNT, _COUNT, _FLAG, _ADDRESS],
    "norm": [_ADDRESS, _COUNT, _COUNT, _FLAG, ctypes.c_float, _ADDRESS, _ADDRESS, _ADDRESS],
    "level_bytes": [_COUNT],
    "linear": [_ADDRESS, _COUNT, *[_ADDRESS] * 5, _FLAG],
    "top_candidates": [_ADDRESS, _COUNT, *[_ADDRESS] * 2, _COUNT, *[_ADDRESS] * 7, _FLAG],
    "sample_tokens": [_ADDRESS, _COUNT, _COUNT, _ADDRESS, _COUNT, _COUNT, *[_ADDRESS] * 9, _FLAG],
    "embed": [_ADDRESS, _COUNT, _ADDRESS, _COUNT, _COUNT, ctypes.c_float, _ADDRESS, _ADDRESS],
    "rotate": [_ADDRESS, *[_COUNT] * 4, _ADDRESS, _ADDRESS],
    "run_plan": [_ADDRESS, _COUNT, _ADDRESS],
    "run_steps": [_ADDRESS, _COUNT, _ADDRESS, _ADDRESS],
    "add_dropped": [*[_ADDRESS] * 3, _FLAG, ctypes.c_float, _COUNT, _ADDRESS, _FLAG],
    "post_norm": [
        *[_ADDRESS] * 3,
        _FLAG,
        ctypes.c_float,
        _COUNT,
        _COUNT,
        ctypes.c_float,
        *[_ADDRESS] * 5,
        _FLAG,
    ],
    "post_norm_backward": [*[_ADDRESS] * 4, _FLAG, ctypes.c_float, _COUNT, _COUNT, *[_ADDRESS] * 5, _FLAG],
    "relu_dropped": [*[_ADDRESS] * 3, _FLAG, ctypes.c_float, _COUNT, _COUNT, _FLAG],
    "relu_dropped_backward": [_ADDRESS, _ADDRESS, ctypes.c_float, _COUNT, _COUNT, _ADDRESS, _FLAG],
    "activate_dropped": [
        _ADDRESS,
        _ADDRESS,
        _FLAG,
        ctypes.c_float,
        _COUNT,
        _COUNT,
        _FLAG,
        _FLAG,
        *[_ADDRESS] * 2,
        _FLAG,
    ],
    "activate_dropped_backward": [_ADDRESS, _ADDRESS, _COUNT, _COUNT, _FLAG, _ADDRESS, _FLAG],
    "rms_norm": [_ADDRESS, _COUNT, _COUNT, ctypes.c_float, *[_ADDRESS] * 3, _FLAG],
    "rms_norm_backward": [*[_ADDRESS] * 3, _COUNT, _COUNT, *[_ADDRESS] * 3, _FLAG],
    "rotate_positions": [_ADDRESS, *[_COUNT] * 8, _ADDRESS, _ADDRESS, ctypes.c_float, _ADDRESS, _FLAG],
    "cross_entropy": [_ADDRESS, _ADDRESS, _COUNT, _COUNT, ctypes.c_float, _ADDRESS, _FLAG],
    "attention_forward": [_ADDRESS],
    "attention_backward": [_ADDRESS, _ADDRESS],
    "attend_to_memory": [
        *[_ADDRESS, _ADDRESS, _COUNT, _ADDRESS, _COUNT, _ADDRESS, _COUNT],
        *[_ADDRESS] * 4,
    ],
    "attend_to_self": [
        *[_ADDRESS, _ADDRESS, _COUNT, _ADDRESS, _COUNT, _ADDRESS, _COUNT, _ADDRESS, _ADDRESS, _ADDRESS],
        *[_COUNT, *[_ADDRESS] * 5],
    ],
}


def available() -> bool:
    """True if this machine has kernels."""
    return library() is not None


def has_int8() -> bool:
    """True if the kernels can multiply int8 (AVX2, AVX-512, or ARM of 64 bits)."""
    return available() and bool(constant("has_int8"))


def threads_for(multiplications: int) -> int:
    """The number of threads that share a kernel of `multiplications` multiplications."""
    return torch.get_num_threads() if multiplications >= constant("worth") else 1


@functools.cache
def constant(name: str) -> int:
    """The value of a constant of the C files."""
    return kernel(name)()


@functools.cache
def kernel(name: str) -> "ctypes._NamedFuncPointer":
    """The function of this name."""
    found = library()
    assert found is not None, "ask whether kernels are available first"
    function = getattr(found, name)
    function.argtypes = _TAKES.get(name, [])
    function.restype = _COUNT if name == "run_steps" else _FLAG
    return function
