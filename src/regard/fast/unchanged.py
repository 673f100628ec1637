"""Whether a class or a module still computes what its source says: not patched, hooked or overridden.

A fast form computes what known classes compute, without calling them. If one of them was changed, the fast
form would be silently wrong, so it checks here first.
"""

from functools import cache
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook

SAMPLED = 1024  # numbers of a weight
# A change of these methods of nn.Module changes every module; its other methods compute nothing.
OF_EACH_MODULE = frozenset(vars(nn.Module()))  # parts, weights, hooks and `training`
OF_EVERY_MODULE = ("__call__", "_call_impl", "forward")


def class_is_unchanged(kind: type[nn.Module]) -> bool:
    """True if no method of `kind` has been replaced, before or after the first check."""
    return all(
        each is not None and getattr(kind, name, None) is each for name, each in _methods(kind).items()
    )


@cache
def _methods(kind: type[nn.Module]) -> dict[str, Any]:
    """The methods and properties of a class and its bases; None for each that was defined elsewhere."""
    found = {name: getattr(kind, name) for name in OF_EVERY_MODULE}
    for base in kind.__mro__:
        if not issubclass(base, nn.Module) or base is nn.Module:
            continue
        for name, value in vars(base).items():
            method = value.fget if isinstance(value, property) else value
            if isinstance(method, FunctionType):
                found.setdefault(name, getattr(kind, name))
                if not _is_own(method, base, name):
                    found[name] = None
    return found


def _is_own(method: FunctionType, base: type, name: str) -> bool:
    """True if a function was written in the body of the class `base` under this name."""
    return method.__module__ == base.__module__ and method.__qualname__ == f"{base.__qualname__}.{name}"


def has_hooks(module: nn.Module) -> bool:
    """True if a function is called before or after the module's forward or backward pass."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def any_module_is_hooked() -> bool:
    """True if a hook for all modules is registered (as by `register_module_forward_hook`)."""
    return bool(_has_any_global_hook())


def overrides(module: nn.Module) -> list[str]:
    """Names of methods that an attribute of the module itself overrides."""
    kind, attributes = type(module), vars(module)
    return [name for name in own_names(module) if _is_method(kind, name) and attributes[name] is not None]


def own_names(module: nn.Module) -> tuple[str, ...]:
    """The attributes of a module that PyTorch does not give to each: three quarters of them are PyTorch's."""
    return _own_names(tuple(vars(module)))


@cache
def _own_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in OF_EACH_MODULE)


@cache
def _is_method(kind: type[nn.Module], name: str) -> bool:
    return isinstance(getattr(kind, name, None), FunctionType | MethodType | property)


def changed_part(model: nn.Module) -> str | None:
    """The first module of `model` that was changed; "every module" for a hook of all.

    What is hooked is changed or observed in this process alone.
    """
    if any_module_is_hooked():
        return "every module"
    changed = (name or "the model" for name, module in model.named_modules() if not is_unchanged(module))
    return next(changed, None)


def sampled_weights(model: nn.Module) -> int:
    """A value that changes when a weight changes as a whole, by `.data` and NumPy too.

    It is of about a thousand numbers of each weight. PyTorch's own counters do not see such changes.
    """
    found = []
    for name, weight in (*model.named_parameters(), *model.named_buffers()):
        numbers = weight.detach().reshape(-1)
        sample = numbers[:: max(1, numbers.numel() // SAMPLED)].contiguous()
        found.append((name, tuple(weight.shape), sample.view(torch.uint8).cpu().numpy().tobytes()))
    return hash(tuple(found))


def is_unchanged(module: nn.Module) -> bool:
    """True if its class is unchanged and the module itself has no hooks and no overrides."""
    return not has_hooks(module) and class_is_unchanged(type(module)) and not overrides(module)
