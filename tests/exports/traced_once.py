"""Torch's exporter, for tests: the same graph of the same weights is traced once in a run of the tests.

A trace takes seconds. It is found again by all that it depends on: the pickled modules, the bytes of their
weights, the example inputs and the options. A function within another one, such as a hook, is known by its
code and by what it has from the outer one. What cannot be pickled is traced again.
"""

import gc
import hashlib
import inspect
import io
import os
import pickle
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import jaxtyping
import torch
from torch.onnx import ONNXProgram


class _ByContent(pickle.Pickler):
    """Tensors are pickled by their contents; PyTorch pickles addresses of memory, too."""

    def reducer_override(self, found: Any) -> Any:
        if isinstance(found, FunctionType) and "<locals>" in found.__qualname__:
            found = inspect.unwrap(found)  # without the checks of its types
            code, cells = found.__code__, [cell.cell_contents for cell in found.__closure__ or ()]
            known = (found.__module__, code.co_qualname, code.co_firstlineno, code.co_code)
            return tuple, ((*known, found.__defaults__, found.__kwdefaults__, cells),)
        if isinstance(found, OrderedDict) and all(isinstance(key, int) for key in found):
            return tuple, (list(found.values()),)  # hooks, by numbers that a process counts
        if isinstance(found, torch.Tensor):
            content = found.detach().contiguous().numpy().tobytes()
            return bytes, (content,), (found.dtype, tuple(found.shape), type(found).__name__)
        return NotImplemented


def trace_key(graph: torch.nn.Module, given: Any, named: Any) -> str | None:
    """A digest of all that a trace depends on; None if something cannot be pickled."""
    written = io.BytesIO()
    try:
        _ByContent(written).dump((graph, given, named))
    except (pickle.PicklingError, AttributeError, TypeError, ValueError, RecursionError):
        return None
    return hashlib.sha256(written.getvalue()).hexdigest()


def traced_once(export: Callable[..., ONNXProgram], folder: Path) -> Callable[..., ONNXProgram]:
    """The exporter, with traces in a folder and without checks of types: sizes are symbols in a trace."""

    def traced(graph: torch.nn.Module, *given: Any, **named: Any) -> ONNXProgram:
        import onnx_ir

        key = trace_key(graph, given, named)
        if key is not None and (folder / key).exists():
            return ONNXProgram(onnx_ir.load(folder / key), None)
        before = jaxtyping.config.jaxtyping_disable
        jaxtyping.config.update("jaxtyping_disable", True)
        gc.disable()  # a trace makes millions of objects, and what exists is searched again and again
        try:
            program = export(graph, *given, **named)
        finally:
            gc.enable()
            jaxtyping.config.update("jaxtyping_disable", before)
        if key is not None:
            unfinished = folder / f"{key}-{os.getpid()}"
            program.save(unfinished)
            unfinished.replace(folder / key)  # another process may look for it
        return program

    return traced


def operators_read_once(patch: Any) -> None:
    """Torch reads the sources of its 500 ONNX operators once instead of at each export."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(cache(ONNXRegistry.from_torchlib)))
