"""Linear layers with their weights in the layout of linear.c and top_candidates.c."""

import ctypes

import torch
from jaxtyping import Float, Int8, Int64
from torch import Tensor

from regard.fast.native.kernels import constant, kernel, threads_for
from regard.fast.native.plan import LINEAR, PlannedResult, Rows

QUAD = 4  # features that an int8 instruction multiplies and adds at once
MIDDLE = 128  # the quantised input that stands for 0 if the instruction takes unsigned inputs (dot.h)


class Weights(ctypes.Structure):
    """The struct `Weights` of product.h, which describes the fields."""

    _fields_ = [
        ("panels", ctypes.c_void_p), ("int8_panels", ctypes.c_void_p), ("bias", ctypes.c_void_p),
        ("scales", ctypes.c_void_p), ("offsets", ctypes.c_void_p),
        ("features", ctypes.c_long), ("columns", ctypes.c_long), ("relu", ctypes.c_int),
        ("after", ctypes.c_void_p),
    ]  # fmt: skip


class PackedLinear:
    """A linear layer, followed by ReLU if `relu`, with its weights in the kernels' layout (panels).

    Weights are float32, or int8 with `scale`, the value of one step of each output's weights. With int8
    weights the inputs are quantised too, each row with a scale of its own. A row's result depends neither on
    its batch nor on the number of threads.
    """

    def __init__(
        self,
        weight: Float[Tensor, "out_features in_features"] | Int8[Tensor, "out_features in_features"],
        bias: Float[Tensor, " out_features"] | None,
        *,
        scale: Float[Tensor, " out_features"] | None = None,
        relu: bool = False,
    ) -> None:
        columns, self.features = self.shape = weight.shape
        self.levels = 0 if scale is None else kernel("level_bytes")(self.features)  # bytes of a quantised row
        held = {"bias": _filled(torch.zeros(columns) if bias is None else bias)}
        if scale is None:
            held["panels"] = _panels(weight)
        else:
            held["int8_panels"] = _panels(weight, QUAD)
            held["scales"] = _filled(scale)
            held["offsets"] = _filled(weight.sum(dim=1, dtype=torch.int32) * MIDDLE)
        self._held = held  # the struct has their addresses only
        self._weights = Weights(
            features=self.features, columns=columns, relu=relu, **{k: v.data_ptr() for k, v in held.items()}
        )
        self.address = ctypes.addressof(self._weights)
        self._linear, self._top_candidates = kernel("linear"), kernel("top_candidates")

    def __call__(self, x: Rows, residual: Rows | None = None) -> Rows:
        """x W^T + bias (+ residual), then ReLU if `relu`: [rows, in_features] -> [rows, out_features]."""
        if isinstance(x, PlannedResult):
            assert residual is None or isinstance(residual, PlannedResult)
            return self._planned(x, residual)  # pyright: ignore[reportReturnType]
        assert residual is None or isinstance(residual, Tensor)
        return self._computed(x, residual)  # pyright: ignore[reportReturnType]

    def _planned(self, x: PlannedResult, residual: PlannedResult | None) -> PlannedResult:
        return x.plan.record(
            LINEAR, x, residual, features=self.shape[0], weights=self.address, kept=self, levels=self.levels
        )

    def _computed(
        self, x: Float[Tensor, "rows in_features"], residual: Float[Tensor, "rows out_features"] | None
    ) -> Float[Tensor, "rows out_features"]:
        x, rows = x.contiguous(), x.size(0)
        residual = None if residual is None else residual.contiguous()
        out = torch.empty(rows, self.shape[0])
        _room, levels, scales = self._room(rows) if self.levels else (None, None, None)
        self._linear(
            x.data_ptr(), rows, self.address, None if residual is None else residual.data_ptr(),
            out.data_ptr(), levels, scales, threads_for(rows * self.shape.numel()),
        )  # fmt: skip
        return out

    def prefetch(self, other: "PackedLinear") -> None:
        """Prefetch the first weights of `other` while the last weights of this layer are multiplied.

        `other` may be freed before: a prefetch of freed memory has no effect. If it has int8 weights, nothing
        of it is prefetched.
        """
        self._weights.after = other._weights.panels

    def top_candidates(
        self, x: Float[Tensor, "rows in_features"], size: int, asked: Int64[Tensor, " rows"]
    ) -> tuple[Float[Tensor, "rows size"], Int64[Tensor, "rows size"], Float[Tensor, " rows"]]:
        """The `size` largest log-probabilities of each row, their ids, and the log-probability of `asked`.

        They are the log-softmax of the outputs (logits), in the order of the logits: descending, and of equal
        logits the lower id first. Different logits can have the same log-probability, because it is rounded.
        If there are fewer than `size` outputs, the rest are -inf with id 0. `asked`: an id for each row. The
        logits are not stored: those of 160 rows with 8,000 classes took longer to write, read and sort than
        to compute.
        """
        x, asked, rows = x.contiguous(), asked.contiguous(), x.size(0)
        values, ids = torch.empty(rows, size), torch.empty(rows, size, dtype=torch.int64)
        asked_log_probs, block = torch.empty(rows), torch.empty(rows, constant("block_size"))
        statistics = torch.empty(rows, constant("statistics_size"), dtype=torch.uint8)
        _room, levels, scales = self._room(rows) if self.levels else (None, None, None)
        self._top_candidates(
            x.data_ptr(), rows, self.address, asked.data_ptr(), size, values.data_ptr(), ids.data_ptr(),
            asked_log_probs.data_ptr(), block.data_ptr(), statistics.data_ptr(), levels, scales,
            threads_for(rows * self.shape.numel()),
        )  # fmt: skip
        return values, ids, asked_log_probs

    def _room(self, rows: int) -> tuple[Tensor, int, int]:
        """Scratch memory for quantised rows and then their scales (float32), and the addresses of both."""
        room = torch.empty(rows * (self.levels + 4), dtype=torch.uint8)
        levels = room.data_ptr()
        return room, levels, levels + rows * self.levels


def _panels(weight: Tensor, together: int = 1) -> Tensor:
    """A weight matrix as panels: [panels, features / together, panel_width, together], padded with zeros.

    Columns are outputs. A panel has all features of `panel_width` columns, `together` features of a column
    after each other.
    """
    width = constant("panel_width")
    columns, features = (
        -(-size // unit) * unit for size, unit in zip(weight.shape, (width, together), strict=True)
    )
    filled = weight.new_zeros(columns, features)
    filled[: weight.size(0), : weight.size(1)] = weight
    return filled.view(-1, width, features // together, together).transpose(1, 2).contiguous()


def _filled(of_columns: Tensor) -> Tensor:
    """A vector with a number for each column, padded with zeros to the end of the last panel."""
    width = constant("panel_width")
    filled = of_columns.new_zeros(-(-len(of_columns) // width) * width)
    filled[: len(of_columns)] = of_columns
    return filled
