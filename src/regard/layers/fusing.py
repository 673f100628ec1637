"""When fused kernels stand for layers: in training, on a CPU, in float32, where nobody listens."""

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules.module import _has_any_global_hook

from regard.native.kernels import available


def can_be_fused(x: Tensor, *modules: nn.Module) -> bool:
    """Whether what `modules` make of `x`, whose gradient is wanted, may be computed without calling them.

    The kernels of `native` have gradients, but no gradients of these. Who hears a module or has put something
    else in the place of its `forward` needs it to be called.
    """
    return (
        not torch.compiler.is_compiling()  # asked first: to a compiler every other question is a condition
        and x.requires_grad
        and torch.is_grad_enabled()
        and type(x) is Tensor
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and x.numel() > 0
        and not torch.is_autocast_enabled("cpu")
        and not _is_transformed()
        and all(module.training and not _is_heard(module) and _is_plain(module) for module in modules)
        and available()
    )


def _is_transformed() -> bool:
    """By torch.func, or by derivatives that run forwards."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def _is_plain(module: nn.Module) -> bool:
    """Whether its own parameters, if it has any, are of float32 and whole."""
    return all(
        type(parameter) is nn.Parameter and parameter.dtype == torch.float32
        for parameter in module._parameters.values()
        if parameter is not None
    )


def _is_heard(module: nn.Module) -> bool:
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )
    return any(hooks) or "forward" in vars(module) or bool(_has_any_global_hook())
