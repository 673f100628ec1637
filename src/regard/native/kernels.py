"""The kernels of kernels.c on tensors: float32, on a CPU, without gradients."""

import ctypes
import functools

import torch
from jaxtyping import Float
from torch import Tensor

from regard.native.build import library

WORTH = 1 << 19  # multiplications: fewer are done by one thread, which waits for no other


class PackedLinear:
    """A linear map whose weights lie as the kernel reads them.

    A row has the same bits in any company, and on any number of threads.
    """

    def __init__(
        self, weight: Float[Tensor, "out_features in_features"], bias: Float[Tensor, " out_features"] | None
    ) -> None:
        self._kernel = _kernel("linear")
        self.columns, self.features = weight.shape
        width = panel_width()
        padded = -(-self.columns // width) * width
        panels = weight.new_zeros(padded, self.features)
        panels[: self.columns] = weight
        self._panels = panels.view(-1, width, self.features).transpose(1, 2).contiguous()
        self._bias = weight.new_zeros(padded)
        if bias is not None:
            self._bias[: self.columns] = bias
        self._held = (self._panels.data_ptr(), self._bias.data_ptr())

    def __call__(
        self,
        x: Float[Tensor, "rows in_features"],
        plus: Float[Tensor, "rows out_features"] | None = None,
        relu: bool = False,
    ) -> Float[Tensor, "rows out_features"]:
        """x W^T + bias, `plus` (a residual) added, and then ReLU."""
        x, rows = x.contiguous(), len(x)
        plus = None if plus is None else plus.contiguous()
        out = torch.empty(rows, self.columns)
        self._kernel(
            x.data_ptr(), rows, self.features, *self._held, None if plus is None else plus.data_ptr(), relu,
            out.data_ptr(), self.columns, threads_for(rows * self.features * self.columns),
        )  # fmt: skip
        return out


def attend(
    query: Float[Tensor, "rows heads d_head"],
    key: Float[Tensor, "rows kv_heads seen d_head"],
    value: Float[Tensor, "rows kv_heads seen d_head"],
    hidden: Float[Tensor, "rows 1 1 seen"] | None,
    scale: float,
) -> Float[Tensor, "rows heads*d_head"]:
    """softmax(q K^T scale + hidden) V for one query a head; heads in turn share the keys (equation 1)."""
    rows, heads, d_head = query.shape
    groups, seen = key.shape[1:3]
    query, key, value = query.contiguous(), _even(key), _even(value)
    out, scores = torch.empty(rows, heads * d_head), torch.empty(rows, seen + panel_width())
    _kernel("attend")(
        query.data_ptr(), key.data_ptr(), value.data_ptr(), None if hidden is None else hidden.contiguous().data_ptr(),
        out.data_ptr(), scores.data_ptr(), scores.size(1), rows, groups, heads // groups, d_head, seen,
        *key.stride()[:2], *value.stride()[:2], scale, threads_for(rows * heads * seen * d_head),
    )  # fmt: skip
    return out


def available() -> bool:
    """Whether there are kernels on this machine."""
    return library() is not None


def threads_for(multiplications: int) -> int:
    return torch.get_num_threads() if multiplications >= WORTH else 1


@functools.cache
def panel_width() -> int:
    """Columns of a panel."""
    return _kernel("panel_width")()


def _even(held: Tensor) -> Tensor:
    """With features beside each other and positions one after the other."""
    return held if held.stride()[2:] == (held.size(3), 1) else held.contiguous()


@functools.cache
def _kernel(name: str) -> "ctypes._NamedFuncPointer":
    found = library()
    assert found is not None, "ask whether kernels are available first"
    address, count, flag, real = ctypes.c_void_p, ctypes.c_long, ctypes.c_int, ctypes.c_float
    kernel = getattr(found, name)
    kernel.argtypes = {
        "panel_width": [],
        "linear": [address, count, count, address, address, address, flag, address, count, flag],
        "attend": [address] * 6 + [count] * 10 + [real, flag],
    }[name]
    return kernel
