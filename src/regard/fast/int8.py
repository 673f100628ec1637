"""Linear layers in int8: weights are quantised once, inputs at each call, each row by its own scale.

Products of integers are exact, and each row has its own scale, so a sentence's translation does not depend on
the batch it is in. It is for decoding only: quantisation has no gradient.
"""

from collections.abc import Collection

import torch
from jaxtyping import Float, Int8, UInt8
from torch import Tensor, nn

from regard.fast.native import kernels
from regard.fast.native.linear import PackedLinear
from regard.layers.stacked import StackedLinear

WEIGHT_STEPS = 127  # quantisation steps from 0 to the largest weight of a row
MIN_WEIGHTS = 1 << 20  # smaller layers fit into a core's own cache, where float32 is faster (docs/log.md)


def input_steps() -> int:
    """Quantisation steps from 0 to the largest feature of a row, on this processor.

    Without VNNI instructions oneDNN adds two products in 16 bits, which 8-bit inputs would overflow and 7-bit
    inputs do not. The kernels take 8 bits on every processor.
    """
    return 127 if has_vnni() or kernels.has_int8() else 63


class Int8Linear(nn.Module):
    """A trained `nn.Linear` in int8; outputs differ a little."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.widths = linear.widths if isinstance(linear, StackedLinear) else (linear.out_features,)
        self.train(linear.training)
        weight, self.weight_scale = quantise(linear.weight.detach().float())
        bias = torch.zeros(linear.out_features) if linear.bias is None else linear.bias
        self.bias = bias.detach().float().clone()
        self.weight = weight
        # in oneDNN's layout or the kernels', with the steps of inputs that it takes; made at the first call
        self._packed: tuple[Tensor | PackedLinear, int] | None = None
        self._zero = torch.zeros(linear.out_features, dtype=torch.int64)

    def forward(self, x: Float[Tensor, "*rows in_features"]) -> Float[Tensor, "*rows out_features"]:
        x, (packed, steps) = x.float(), self._in_layout()
        if isinstance(packed, PackedLinear):
            return packed(x.reshape(-1, self.in_features)).view(*x.shape[:-1], self.out_features)
        levels, scale = self.levels(x)
        product = torch.ops.onednn.qlinear_pointwise(
            levels, 1.0, steps + 1, packed, self.weight_scale, self._zero,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return torch.addcmul(self.bias, product, scale, out=product)

    @property
    def steps(self) -> int:
        """Quantisation steps from 0 to the largest feature of a row."""
        return self._in_layout()[1]

    def _in_layout(self) -> tuple[Tensor | PackedLinear, int]:
        if self._packed is None:
            packed = (
                torch.ops.onednn.qlinear_prepack(self.weight, None)
                if _has_onednn() and (has_vnni() or not kernels.has_int8())
                else PackedLinear(self.weight, self.bias, scale=self.weight_scale)
            )
            self._packed = packed, input_steps()
        return self._packed

    def __getstate__(self) -> dict[str, object]:
        """Without the packed weights, which another process has to compute for itself."""
        return {**self.__dict__, "_packed": None}

    def levels(
        self, x: Float[Tensor, "*rows in_features"]
    ) -> tuple[UInt8[Tensor, "*rows in_features"], Float[Tensor, "*rows 1"]]:
        """Each row quantised to integers, and its scale; the integer `steps` + 1 stands for 0."""
        scale = x.abs().amax(dim=-1, keepdim=True).clamp_min_(1e-30).mul_(1 / self.steps)
        levels = torch.addcmul(torch.tensor(self.steps + 1.5), x, scale.reciprocal())
        return levels.to(torch.uint8), scale  # truncation rounds, since 0.5 was added

    def plain(self, x: Float[Tensor, "*rows in_features"]) -> Float[Tensor, "*rows out_features"]:
        """`forward` in plain PyTorch, without oneDNN and kernels."""
        levels, scale = self.levels(x)
        product = (levels.double() - (self.steps + 1)) @ self.weight.double().T
        return (product * self.weight_scale).float() * scale + self.bias


def can_int8() -> bool:
    """True if the kernels of this machine, or this build of PyTorch, can multiply int8."""
    return _has_onednn() or kernels.has_int8()


def _has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.onednn, "qlinear_pointwise")


def has_vnni() -> bool:
    """True if this processor adds four products of 8-bit integers in 32 bits at once."""
    able = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(able.get("avx512_vnni") or able.get("avx_vnni"))


def quantise(
    weight: Float[Tensor, "rows features"],
) -> tuple[Int8[Tensor, "rows features"], Float[Tensor, " rows"]]:
    """Each row quantised to integers by its own scale, and the scales."""
    scale = weight.abs().amax(dim=1).clamp_min(1e-30) / WEIGHT_STEPS
    return (weight / scale[:, None]).round().to(torch.int8), scale


def to_int8(model: nn.Module, least: int | None = None, names: Collection[str] | None = None) -> int:
    """Replace linear layers of `model`, which is on a CPU, by `Int8Linear`; returns their number.

    Only layers with at least `least` weights (None: MIN_WEIGHTS), and, if `names` are given, with these
    names.
    """
    least, count = MIN_WEIGHTS if least is None else least, 0
    for prefix, module in list(model.named_modules()):
        for name, child in module.named_children():
            if not isinstance(child, nn.Linear) or type(child) not in (nn.Linear, StackedLinear):
                continue  # a subclass may compute something else
            is_selected = names is None or f"{prefix}.{name}".lstrip(".") in names
            if is_selected and child.weight.numel() >= least:
                setattr(module, name, Int8Linear(child))
                count += 1
    return count
