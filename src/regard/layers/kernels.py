"""The kernel of an attention: which it is, and how another takes its place for a while.

A kernel is the `attend` of an attention: a function in the object, a method of a subclass, or a module. An
exchanged kernel is that of one thread; other threads use the kernel from before.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, get_ident
from typing import Any, cast

from torch import Tensor, nn

from regard.layers.recurrent import weighted_mean
from regard.layers.scaled_dot_product import (
    SoftcappedAttention,
    attention,
    fused_attention,
    plain_attention,
)

Attend = Callable[..., Tensor]
# fast/ adds its own
SOFTMAX_KERNELS: list[Attend] = [attention, plain_attention, fused_attention, weighted_mean]
INNER = "inner_kernel"  # an attribute of a kernel that calls another one and uses its weights
_EXCHANGING = Lock()


class _KernelOfThread:
    """The `attend` of an attention while threads exchange it: in each thread that thread's own."""

    def __init__(self, before: Attend, is_in_object: bool) -> None:
        self.before, self.is_in_object = before, is_in_object
        self.by_thread: dict[int, list[Attend]] = {}  # the last one is used

    def current(self) -> Attend:
        kernels = self.by_thread.get(get_ident())
        return kernels[-1] if kernels else self.before

    def __call__(self, *inputs: Any, **named: Any) -> Tensor:
        return self.current()(*inputs, **named)


def current_attend(module: nn.Module) -> Attend:
    """The `attend` that an attention uses in this thread, with recorders and ablations."""
    kernel = cast(Attend, module.attend)
    return kernel.current() if isinstance(kernel, _KernelOfThread) else kernel


def kernel_of(module: nn.Module) -> Attend:
    """The kernel whose weights an attention uses: that inside of recorders and ablations."""
    kernel = current_attend(module)
    while (inner := getattr(kernel, INNER, None)) is not None:
        kernel = inner
    return kernel


def has_own_kernel(module: nn.Module) -> bool:
    """True if the weights of an attention are not regard's softmax of its scores, soft-capped or not."""
    kernel = kernel_of(module)
    return type(kernel) is not SoftcappedAttention and not any(kernel is each for each in SOFTMAX_KERNELS)


def softcap_of(module: nn.Module) -> float | None:
    """The soft cap of the scores in the kernel of an attention; None without one."""
    kernel = kernel_of(module)
    return kernel.cap if isinstance(kernel, SoftcappedAttention) else None


def around(inner: Attend, kernel: Attend) -> Attend:
    """`kernel`, noted as one that calls `inner` and uses its weights."""
    setattr(kernel, INNER, inner)
    return kernel


@contextmanager
def exchanged(module: nn.Module, attend: Attend) -> Iterator[None]:
    """A context in which an attention has another kernel in this thread; nothing of it stays in the object.

    Other threads that call the module meanwhile use the kernel from before, or the one that they exchanged.
    """
    own, thread = vars(module), get_ident()  # written directly: a child module or method may have the name
    with _EXCHANGING:
        kernels = own.get("attend")
        if not isinstance(kernels, _KernelOfThread):
            kernels = own["attend"] = _KernelOfThread(cast(Attend, module.attend), "attend" in own)
        kernels.by_thread.setdefault(thread, []).append(attend)
    try:
        yield
    finally:
        with _EXCHANGING:
            kernels.by_thread[thread].pop()
            if not kernels.by_thread[thread]:
                del kernels.by_thread[thread]
            if not kernels.by_thread:
                _restore(own, kernels)


def _restore(own: dict[str, Any], kernels: _KernelOfThread) -> None:
    """Give a module the `attend` back that it had before."""
    if kernels.is_in_object:
        own["attend"] = kernels.before
    else:
        del own["attend"]
