"""When fused kernels may replace layers: in training, if nothing was changed; on a CPU in float32."""

import importlib.util
import warnings
from functools import cache

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from regard.fast.native.kernels import available
from regard.fast.unchanged import any_module_is_hooked, class_is_unchanged, has_hooks

GPUS = ("cuda",)  # types of devices
LONGEST = 128  # positions of a row whose scores fit into the registers of one program


def can_be_fused(x: Tensor, *modules: nn.Module) -> bool:
    """True if a fused kernel may compute what `modules` compute from `x`, without calling them.

    The kernels have first derivatives only. Modules with hooks, with a replaced `forward`, or with parameters
    that are not plain float32 tensors have to be called.
    """
    return (
        not torch.compiler.is_compiling()  # first, because torch.compile guards each of the other conditions
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and has_gradient(x)
        and _is_unchanged(x, modules)
        and available()
    )


def is_on_gpu(x: Tensor) -> bool:
    """True if `x` is where kernels in Triton run."""
    return x.device.type in GPUS


def can_be_fused_on_gpu(x: Tensor, *modules: nn.Module) -> bool:
    """The same for the kernels in Triton, whose inputs may be of half precision.

    They need no gradient: a checkpoint that computes a pass again then drops the same elements.
    """
    return (
        not torch.compiler.is_compiling()
        and is_on_gpu(x)
        and (x.device.type != "cuda" or x.device.index == torch.cuda.current_device())  # where kernels run
        and x.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and x.numel() < 2**31  # elements are numbered in 32 bits
        and _is_unchanged(x, modules)
        and has_triton()
    )


@cache
def has_triton() -> bool:
    """True if kernels in Triton can be compiled: it comes with PyTorch for CUDA, and needs a C compiler."""
    if importlib.util.find_spec("triton") is None:
        return False
    from regard.fast.triton.elementwise import try_a_kernel

    try:
        try_a_kernel()
    except Exception as error:  # noqa: BLE001, a compiler or a driver can fail in many ways
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        warnings.warn(f"Triton cannot compile kernels here, so PyTorch's are used: {reason}", stacklevel=2)
        return False
    return True


def has_gradient(x: Tensor) -> bool:
    """True if a gradient of `x` will be computed."""
    return x.requires_grad and torch.is_grad_enabled()


def _is_unchanged(x: Tensor, modules: tuple[nn.Module, ...]) -> bool:
    return (
        type(x) is Tensor
        and x.numel() > 0
        and not _is_transformed()
        and not any_module_is_hooked()
        and all(map(_may_be_passed_by, modules))
    )


def _is_transformed() -> bool:
    """True within a transform of torch.func, or with forward-mode derivatives."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def _may_be_passed_by(module: nn.Module) -> bool:
    return (
        module.training
        and not has_hooks(module)
        and "forward" not in vars(module)
        and class_is_unchanged(type(module))
        and all(
            type(parameter) is nn.Parameter and parameter.dtype == torch.float32
            for parameter in module._parameters.values()
            if parameter is not None
        )
    )
