"""A device that is simulated on the CPU: it holds data, refuses mixed devices and lists waits for a GPU.

Its tensors are wrappers around CPU tensors, so every operation gives the CPU's values. An operation with
tensors of two devices fails, as on a GPU. `SimulatedDevice.waits` lists the operations that make the
processor wait for a GPU: reading a number, results whose size depends on values, blocking copies.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "simulated"
VALUE_DEPENDENT = {  # a GPU must finish before the processor knows the number or the size of the result
    "aten::_local_scalar_dense",
    "aten::equal",
    "aten::is_nonzero",
    "aten::masked_select",
    "aten::nonzero",
    "aten::repeat_interleave.Tensor",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::unique_dim",
}
INDEXING = {"aten::index.Tensor", "aten::index_put", "aten::index_put_"}
COPIES = {"aten::_to_copy", "aten::copy_"}

_registered: list[torch.device] = []


_library = torch.library.Library("aten", "IMPL")


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **_: Any) -> "DeviceTensor":
    """For Python's lists as indices, which PyTorch converts below the mode."""
    return DeviceTensor(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    if _simulations and not non_blocking:
        _simulations[-1].waits.append("aten::_copy_from, a list as a tensor")
    _inner(target).copy_(_inner(source))
    return target


def simulated_device() -> torch.device:
    """The device; PyTorch allows one such device for each process."""
    if not _registered:
        backend_registration._setup_privateuseone_for_python_backend(NAME)
        _registered.append(torch.device(NAME, 0))
        _library.impl("empty_strided", _empty_strided, "PrivateUse1")
        _library.impl("_copy_from", _copy_from, "PrivateUse1")
    return _registered[0]


class DeviceTensor(Tensor):
    """A tensor on the simulated device; `inner` has its values."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "DeviceTensor":
        found = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=simulated_device(),
        )
        found.inner = inner
        return found

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"on {NAME}: {self.inner}"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError("a tensor of another device has no NumPy array; call cpu() first")
        return self.cpu().numpy()

    def __deepcopy__(self, memo: dict[int, Any]) -> "DeviceTensor":
        copied = DeviceTensor(self.inner.clone())
        if isinstance(self, nn.Parameter):
            copied = nn.Parameter(copied, requires_grad=self.requires_grad)
        memo[id(self)] = copied
        return copied

    def data_ptr(self) -> int:
        return self.inner.data_ptr()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {}, [])


class SimulatedDevice(TorchDispatchMode):
    """A context in which the simulated device exists; `waits`: the operations that would wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.device = simulated_device()
        self.waits: list[str] = []

    def __enter__(self) -> "SimulatedDevice":
        _simulations.append(self)
        self._inference_mode = torch.inference_mode
        torch.inference_mode = torch.no_grad  # wrappers have no inference tensors
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.inference_mode = self._inference_mode
        _simulations.remove(self)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {}, self.waits)


_simulations: list[SimulatedDevice] = []


def current_simulation() -> SimulatedDevice:
    """The innermost context of the simulated device."""
    return _simulations[-1]


class CudaWaits:
    """The same for a real GPU: `waits` are the warnings of PyTorch about waiting for it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.waits: list[str] = []

    def __enter__(self) -> "CudaWaits":
        self._filters = warnings.catch_warnings()
        self._filters.__enter__()
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: self.waits.append(str(message))
        torch.cuda.set_sync_debug_mode("warn")
        return self

    def __exit__(self, *_: Any) -> None:
        torch.cuda.set_sync_debug_mode("default")
        self._filters.__exit__(None, None, None)


def moved(model: nn.Module, device: torch.device) -> nn.Module:
    """`model.to(device)`, which for a wrapper would untie tied weights, as it does not for a GPU."""
    if device.type != NAME:
        return model.to(device)
    wrappers: dict[nn.Parameter, nn.Parameter] = {}
    for module in model.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                if weight not in wrappers:
                    on_device = weight.detach().to(device)
                    wrappers[weight] = nn.Parameter(on_device, requires_grad=weight.requires_grad)
                module._parameters[name] = wrappers[weight]
        for name, values in module._buffers.items():
            module._buffers[name] = None if values is None else values.to(device)
    return model


def _run(func: Any, args: Any, kwargs: dict[str, Any], waits: list[str]) -> Any:
    name, tensors = func.name(), [*_tensors(args), *_tensors(kwargs.values())]
    own = [tensor for tensor in tensors if isinstance(tensor, DeviceTensor)]
    asked = kwargs.get("device")
    if not own and (asked is None or torch.device(asked).type != NAME):
        return func(*args, **kwargs)
    is_result_here = bool(own) if asked is None else torch.device(asked).type == NAME
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    _refuse_two_devices(name, tensors, own, args)
    if waited := _wait(name, tensors, own, args, kwargs, is_result_here):
        waits.append(waited)
    result = func(*_mapped(_inner, args), **{key: _mapped(_inner, each) for key, each in kwargs.items()})
    if name == "aten::copy_":
        return args[0]
    if not is_result_here:
        return result
    wrappers = {id(tensor.inner): tensor for tensor in own}  # in-place operations return their argument
    return _mapped(lambda leaf: _wrapped(leaf, wrappers), result)


def _refuse_two_devices(name: str, tensors: list[Tensor], own: list[DeviceTensor], args: Any) -> None:
    """As a GPU does: only numbers (tensors without axes) and indices may be on the CPU."""
    if name in COPIES or not own:
        return
    allowed = [*_tensors(args[1])] if name in INDEXING else []
    for tensor in tensors:
        others = (
            isinstance(tensor, DeviceTensor) or not tensor.dim() or any(tensor is each for each in allowed)
        )
        if not others:
            raise RuntimeError(f"{name}: tensors on two devices, {NAME} and {tensor.device}")


def _wait(
    name: str,
    tensors: list[Tensor],
    own: list[DeviceTensor],
    args: Any,
    kwargs: dict[str, Any],
    is_result_here: bool,
) -> str | None:
    """What makes the processor wait in this operation; None if nothing does."""
    if name in VALUE_DEPENDENT and own:
        return name
    if name in INDEXING and own:
        indices = [*_tensors(args[1])]
        if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
            return f"{name} with a mask"
        return (
            f"{name} with an index of the CPU"
            if len(own) < len(tensors) and any(not isinstance(index, DeviceTensor) for index in indices)
            else None
        )
    if name == "aten::_to_copy" and bool(own) != is_result_here and not kwargs.get("non_blocking"):
        return f"{name} {'from' if own else 'to'} the device"
    if name == "aten::copy_":
        target, source, *rest = args
        blocking = not (kwargs.get("non_blocking") or (rest and rest[0]))
        if blocking and isinstance(target, DeviceTensor) != isinstance(source, DeviceTensor):
            return f"{name} {'from' if isinstance(source, DeviceTensor) else 'to'} the device"
    return None


def _tensors(given: Any) -> Iterator[Tensor]:
    """The tensors among arguments, which are tensors and lists of them; torch's pytree is slower."""
    for each in given:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, (list, tuple)):
            yield from _tensors(each)


def _mapped(change: Callable[[Any], Any], given: Any) -> Any:
    """The same with each leaf changed."""
    if isinstance(given, (list, tuple)):
        return type(given)([_mapped(change, each) for each in given])
    return change(given)


def _inner(leaf: Any) -> Any:
    return leaf.inner if isinstance(leaf, DeviceTensor) else leaf


def _wrapped(leaf: Any, wrappers: dict[int, DeviceTensor]) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf
    return wrappers[id(leaf)] if id(leaf) in wrappers else DeviceTensor(leaf)
