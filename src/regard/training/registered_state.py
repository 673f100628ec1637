"""The `state` and the groups of a registered optimiser: its tensors by name, and the rest as JSON.

    {"tensor": name}         a tensor of the file beside it; "on_device" if it is a number on a GPU
    {"weight": name}         a weight of the model itself
    {"list": [...]}, {"tuple": [...]}, {"dict": [[key, value], ...]}
    {"float": "inf"}, {"numpy": [type, value]}, {"complex": [real, imaginary]}
    {"same": true}           in a group: a function or a class, which the optimiser is made with

All else is a number, a text, a truth value or null.
"""

import enum
import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import FolderError, RunError

SET_BY_TRAINER = ("params", "names", "lr", "scale")  # keys of groups that are not saved
DTYPES = frozenset(
    [
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.bool),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16),
    ]
)
PLAIN = (bool, int, str, type(None))
ATTRIBUTES = (*PLAIN, float)  # of an optimiser, which are compared
SAME = {"same": True}
# attributes that PyTorch changes
OF_PYTORCH = ("_warned_capturable_if_run_uncaptured", "_opt_called", "_need_device_dtype_check_for_fused")
UNCHANGING = (FunctionType, BuiltinFunctionType, type, enum.Enum, torch.dtype, torch.device, partial)
Weights = Mapping[str, Tensor]


def is_registered(optimizer: torch.optim.Optimizer) -> bool:
    """True after `remember_start`."""
    return "attributes_at_start" in vars(_parts(optimizer)[0])


def remember_start(optimizer: torch.optim.Optimizer) -> None:
    """Notes what a new optimiser is made with, so that it is known what changes later."""
    for part in _parts(optimizer):
        vars(part)["attributes_at_start"] = _attributes(part)


def saved_state(optimizer: torch.optim.Optimizer, weights: Weights) -> tuple[dict[str, Tensor], Any]:
    """The tensors of the state by name, and the state as JSON data, which refers to them.

    `weights`: the trained weights by name. A tensor that belongs to one is named `weight/slot`.

    Raises:
        RunError: something in the state cannot be saved, or the optimiser keeps a number elsewhere.
    """
    _refuse_other_places(optimizer, weights)
    writer = _Writer(weights)
    return writer.tensors, {
        "weights": {
            name: writer.value({**optimizer.state[weight]}, f"{name}/")
            for name, weight in weights.items()
            if weight in optimizer.state
        },
        "groups": [
            {
                key: SAME if isinstance(value, UNCHANGING) else writer.value(value, f"#{number}/{key}")
                for key, value in group.items()
                if key not in SET_BY_TRAINER
            }
            for number, group in enumerate(optimizer.param_groups)
        ],
        "other": writer.value(
            {key: value for key, value in optimizer.state.items() if not isinstance(key, Tensor)}, "#state/"
        ),
    }


def restore_state(
    optimizer: torch.optim.Optimizer,
    weights: Weights,
    tensors: Mapping[str, Tensor],
    saved: Mapping[str, Any],
) -> None:
    """Restores what `saved_state` returned; the optimiser has nothing else of its state then.

    Raises:
        FolderError: it is of another model or of another optimiser, or is damaged.
    """
    hint = "resume with the same recipe, and the same version of what registers the optimiser"
    groups = optimizer.param_groups
    on_device = any(group.get("fused") or group.get("capturable") for group in groups)
    reader = _Reader(weights, tensors, next(iter(weights.values())).device, numbers_on_device=on_device)
    optimizer.state.clear()
    try:
        if len(saved["groups"]) != len(groups):
            raise FolderError(
                f"optimizer state of {len(saved['groups'])} groups, and the optimiser has {len(groups)}", hint
            )
        for name, slots in saved["weights"].items():
            weight = reader.weight(name)
            optimizer.state[weight] = reader.value(slots, weight.device)
        for key, value in reader.value(saved["other"], reader.device).items():
            optimizer.state[key] = value
        for group, values in zip(groups, saved["groups"], strict=True):
            for key in [key for key in group if key not in values and key not in SET_BY_TRAINER]:
                del group[key]
            for key, value in values.items():
                if value != SAME:
                    group[key] = reader.value(value, reader.device)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FolderError(f"the optimizer state is damaged: {error}", hint) from error


class _Writer:
    """Collects the tensors of a state while its values become JSON."""

    def __init__(self, weights: Weights) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._weights, self._names = weights, {id(weight): name for name, weight in weights.items()}
        self._written: dict[int, str] = {}  # the id of a tensor -> its name
        self._is_divided = any(hasattr(weight, "placements") for weight in weights.values())
        self._memory: dict[int, list[tuple[range, str]]] = {}  # of each storage: the bytes in use, by what
        for name, weight in weights.items():
            self._take_memory(weight, f"the weight {name}")

    def value(self, given: object, name: str) -> Any:
        """A value as JSON data; `name` is what it is called if it is a tensor."""
        value: Any = given
        kind: Any = type(value)
        if kind in PLAIN or (kind is float and math.isfinite(value)):
            return value
        if kind is float:
            return {"float": str(value)}
        if isinstance(value, Tensor):
            return self._tensor(value, name)
        if kind is complex:
            return {"complex": [self.value(part, name) for part in (value.real, value.imag)]}
        if kind in (list, tuple):
            return {kind.__name__: [self.value(each, f"{name}.{i}") for i, each in enumerate(value)]}
        if kind is dict:
            return {
                "dict": [
                    [self.value(key, name), self.value(each, _within(name, key))]
                    for key, each in value.items()
                ]
            }
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return {"numpy": [value.dtype.str, self.value(value.item(), name)]}
        raise _cannot_be_saved(name, kind.__name__, "keep tensors, numbers, lists and dictionaries in it")

    def _tensor(self, tensor: Tensor, name: str) -> Any:
        if id(tensor) in self._names:
            return {"weight": self._names[id(tensor)]}
        if id(tensor) not in self._written:
            self._refuse_other_tensors(tensor, name)
            unused = name if name not in self.tensors else f"{name}.{len(self.tensors)}"
            self.tensors[unused] = tensor
            self._written[id(tensor)] = unused
        on_device = {"on_device": True} if tensor.ndim == 0 and tensor.device.type != "cpu" else {}
        return {"tensor": self._written[id(tensor)], **on_device}

    def _refuse_other_tensors(self, tensor: Tensor, name: str) -> None:
        """Raise a RunError for a tensor that would be another one after it was restored."""
        if self._is_divided and (tensor.ndim or hasattr(tensor, "placements")):
            weight = self._weights.get(name.rpartition("/")[0])
            if weight is None or _layout(tensor) != _layout(weight):
                raise _cannot_be_saved(
                    name, "a tensor that is not divided as its weight", "set distributed.strategy = 'ddp'"
                )
        if tensor.dtype not in DTYPES or tensor.layout != torch.strided:
            kind = tensor.dtype if tensor.layout == torch.strided else tensor.layout
            raise _cannot_be_saved(name, f"a tensor of {kind}", "keep plain tensors of common types")
        if other := self._take_memory(tensor, name):
            raise _cannot_be_saved(name, f"a tensor that shares the memory of {other}", "keep a copy")

    def _take_memory(self, tensor: Tensor, name: str) -> str | None:
        """What has some of the memory of a tensor already, which is `name` from now on."""
        if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.device.type == "meta":
            return None
        last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
        first = tensor.data_ptr()
        own = range(first, first + (last + 1) * tensor.itemsize if tensor.numel() else first)
        taken = self._memory.setdefault(tensor.untyped_storage().data_ptr(), [])
        taken.append((own, name))
        shared = (other for there, other in taken[:-1] if own.start < there.stop and there.start < own.stop)
        return next(shared, None)


class _Reader:
    """Gives the values that a `_Writer` wrote."""

    def __init__(
        self,
        weights: Weights,
        tensors: Mapping[str, Tensor],
        device: torch.device,
        *,
        numbers_on_device: bool,
    ) -> None:
        self.device, self._weights, self._tensors = device, weights, tensors
        self._numbers_on_device = numbers_on_device
        self._read: dict[str, Tensor] = {}

    def weight(self, name: str) -> Tensor:
        if name not in self._weights:
            raise FolderError(
                f"optimizer state for {name!r}, which the model lacks", "resume with the same recipe"
            )
        return self._weights[name]

    def value(self, saved: Any, device: torch.device) -> Any:
        if not isinstance(saved, dict):
            return saved
        [kind] = saved.keys() - {"on_device"}
        inner = saved[kind]
        forms: dict[str, Callable[[], Any]] = {
            "tensor": lambda: self._tensor(inner, device, is_on_device="on_device" in saved),
            "weight": lambda: self.weight(inner),
            "float": lambda: float(inner),
            "numpy": lambda: np.dtype(inner[0]).type(self.value(inner[1], device)),
            "complex": lambda: complex(*(self.value(part, device) for part in inner)),
            "list": lambda: [self.value(each, device) for each in inner],
            "tuple": lambda: tuple(self.value(each, device) for each in inner),
            "dict": lambda: {self.value(key, device): self.value(each, device) for key, each in inner},
        }
        return forms[kind]()

    def _tensor(self, name: str, device: torch.device, *, is_on_device: bool) -> Tensor:
        """The tensor; a single number stays on the processor, where PyTorch counts steps.

        Not that of a weight which is a number itself, and not if the whole update is on the device.
        """
        if name not in self._read:
            found, weight = self._tensors[name].clone(), self._weights.get(name.rpartition("/")[0])
            is_moved = found.ndim or is_on_device or self._numbers_on_device
            is_moved = is_moved or (weight is not None and weight.ndim == 0 and not name.endswith("/step"))
            self._read[name] = found.to(device) if is_moved else found
        return self._read[name]


def _layout(tensor: Tensor) -> tuple[Any, ...]:
    """The shape of a tensor, and how FSDP has divided it."""
    return tuple(tensor.shape), getattr(tensor, "placements", None)


def _within(name: str, key: object) -> str:
    """The name of a value in a dictionary; only the end of a weight's name is a slash."""
    return name + ("" if name.endswith("/") else ".") + str(key).replace("/", "%")


def _parts(optimizer: torch.optim.Optimizer) -> tuple[torch.optim.Optimizer, ...]:
    return getattr(optimizer, "joined_parts", (optimizer,))


def _attributes(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    return {name: value for name, value in vars(optimizer).items() if type(value) in ATTRIBUTES}


def _refuse_other_places(optimizer: torch.optim.Optimizer, weights: Weights) -> None:
    """Raise a RunError for what an attribute of the optimiser keeps: a number that changes, or a tensor."""
    own = {id(weight) for weight in weights.values()}
    for part in _parts(optimizer):
        start = vars(part)["attributes_at_start"]
        for name, value in _attributes(part).items():
            is_same = name in start and (start[name] is value or start[name] == value)
            if name not in OF_PYTORCH and not is_same:
                raise _in_an_attribute(part, f"changes its attribute {name!r}")
        for name, value in vars(part).items():
            if name not in _of_each() and _keeps(value, own):
                raise _in_an_attribute(part, f"keeps tensors in its attribute {name!r}")


@cache
def _of_each() -> frozenset[str]:
    """The attributes that each optimiser has. The first optimiser of a process takes PyTorch a second."""
    return frozenset(vars(torch.optim.SGD([torch.zeros(())])))


def _keeps(value: object, own: set[int]) -> bool:
    """True for an optimiser, a generator, a tensor that is not a weight, and lists and dicts of these."""
    if isinstance(value, torch.optim.Optimizer | torch.Generator):
        return True
    if isinstance(value, Mapping):
        return any(_keeps(each, own) for each in value.values())
    if isinstance(value, list | tuple):
        return any(_keeps(each, own) for each in value)
    return isinstance(value, Tensor) and id(value) not in own


def _in_an_attribute(optimizer: torch.optim.Optimizer, what: str) -> RunError:
    return RunError(
        f"{type(optimizer).__name__} {what}, which a checkpoint does not have",
        "keep it in the groups or in the state of weights: group['count'] instead of self.count",
    )


def _cannot_be_saved(name: str, what: str, hint: str) -> RunError:
    return RunError(f"the state of the optimiser has {name!r}, {what}, which cannot be saved", hint)
