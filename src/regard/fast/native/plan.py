"""A plan: a sequence of kernel calls, recorded once and run by one call (plan.c).

To record it, the kernels are called with a `PlannedResult` instead of each tensor of rows.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, TypedDict, TypeVar, Unpack

import torch
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from regard.fast.native.kernels import constant, kernel

EMBED, LINEAR, NORM, ACTIVATE, ROTATE, TO_SELF, TO_MEMORY, ADD = range(8)  # as in plan.h
NO_OPERAND, INPUT, OUTPUT = -1, -2, -3  # offsets of operands that are not in the buffer, as in plan.h
SCALE = 4  # bytes


class UnsupportedPart(Exception):
    """A model has a part that no kernel computes; the message says which."""


class PlannedResult:
    """A placeholder for the result of a planned call: `features` of its columns, from `column` on."""

    def __init__(self, plan: "Plan", call: int, column: int, features: int) -> None:
        self.plan, self.call, self.column, self.features = plan, call, column, features

    def __getitem__(self, place: tuple[slice, slice | None]) -> "PlannedResult":
        rows, columns = place
        if rows != slice(None) or columns is None or columns.step is not None:
            raise UnsupportedPart("rows of a plan are not sliced")
        first, last, _step = columns.indices(self.features)
        return PlannedResult(self.plan, self.call, self.column + first, last - first)

    @property
    def is_whole(self) -> bool:
        """True if these are all columns of a result."""
        return (self.column, self.features) == (0, self.plan.width(self.call))


Rows = TypeVar("Rows", Tensor, PlannedResult)  # [rows, features], a tensor or planned


@dataclass(frozen=True)
class AttentionInputs:
    """Keys and values of a step's attentions (attention.py) by layer, and the vectors of its positions.

    All with `steps_x_rows` may be those of several steps, one after another.
    """

    keys: Sequence[Float[Tensor, "slots features"]]
    values: Sequence[Float[Tensor, "slots features"]]
    table: Int32[Tensor, "rows capacity"]
    slots: Int32[Tensor, " steps_x_rows"]  # where the keys and values of this step are stored
    begins: Int64[Tensor, " steps_x_rows"]  # the first position in `table` that a row attends to
    positions: Int64[Tensor, " steps_x_rows"]  # this step's position in `table`
    memory: Sequence[tuple[Float[Tensor, "positions width"], Float[Tensor, "positions width"]]] = ()
    starts: Int64[Tensor, " rows"] | None = None
    lengths: Int64[Tensor, " rows"] | None = None
    longest: int = 0
    positional: Float[Tensor, "steps_x_rows d_model"] | None = None  # is added to embeddings
    rotary: Float[Tensor, "steps_x_rows two_d_head"] | None = None  # sines and then cosines of the angles


class Operand(ctypes.Structure):
    """The struct of plan.h; so are the next two classes."""

    _fields_ = [(name, ctypes.c_long) for name in ("offset", "width", "column")]


class Call(ctypes.Structure):
    _fields_ = [
        *[(name, Operand) for name in ("x", "y", "z", "out")],
        *[(name, ctypes.c_long) for name in ("kind", "features", "heads", "groups", "layer")],
        *[(name, ctypes.c_void_p) for name in ("weights", "bias")],
        *[("number", ctypes.c_float), ("flag", ctypes.c_int)],
    ]


class Run(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_void_p) for name in (
            "input", "output", "buffer", "scores", "levels", "level_scales", "plus", "rotary",
            "keys", "values", "table", "slots", "begins", "positions",
            "memory_keys", "memory_values", "starts", "lengths",
        )],
        *[(name, ctypes.c_long) for name in ("rows", "table_row", "seen", "longest", "threads")],
    ]  # fmt: skip


class Details(TypedDict, total=False):
    """Fields of a `Call` that only some kinds of call have."""

    heads: int
    groups: int
    layer: int
    weights: int | None
    bias: int | None
    number: float
    flag: int


@dataclass(frozen=True)
class PlannedCall:
    """A recorded call of a kernel."""

    kind: int
    inputs: Sequence[PlannedResult | None]
    features: int  # of its result
    details: Details
    kept: object  # keeps the memory of the weights alive


class PreparedRun(NamedTuple):
    """The inputs and the memory of a run, and its result. `memory` keeps alive what has an address in it."""

    run: Run
    out: Float[Tensor, "rows features"]
    memory: object


class Plan:
    """All kernels that `path` calls, as one call."""

    def __init__(self, features: int, path: Callable[[PlannedResult], PlannedResult]) -> None:
        """`path` is called once, with a `PlannedResult` of `features` features, or of ids (1).

        Raises:
            UnsupportedPart: it calls something that is not a kernel, or does not return a kernel's result.
        """
        self._noted: list[PlannedCall] = []
        self._input = features
        self._levels = 0  # bytes of a row's quantised inputs, at most
        last = path(PlannedResult(self, INPUT, 0, features))
        if not self._noted or last.call != len(self._noted) - 1 or last.features != self._noted[-1].features:
            raise UnsupportedPart("a plan ends in the whole of what its last kernel gives")
        self.features = last.features
        attentions = (call.details for call in self._noted if call.kind in (TO_SELF, TO_MEMORY))
        self._heads = max((details.get("heads", 0) for details in attentions), default=0)
        self._calls, self.buffer = allocated(self._noted, features)
        self._run = kernel("run_plan")

    @property
    def linears(self) -> list[object]:
        """The linear layers, in the order of their calls."""
        return [call.kept for call in self._noted if call.kind == LINEAR]

    def record(
        self,
        kind: int,
        *inputs: PlannedResult | None,
        features: int,
        kept: object = None,
        levels: int = 0,
        **details: Unpack[Details],
    ) -> PlannedResult:
        """Record a call of a kernel; returns its future result. `kept` keeps the memory of its weights alive.

        Raises:
            UnsupportedPart: the kernel reads whole rows, but was given some columns only.
        """
        whole = kind in (LINEAR, ADD) or (kind == NORM and not details.get("heads"))
        if whole and not all(given is None or given.is_whole for given in inputs):
            raise UnsupportedPart("linear layers, norms and sums read whole rows")
        self._noted.append(PlannedCall(kind, inputs, features, details, kept))
        self._levels = max(self._levels, levels)
        return PlannedResult(self, len(self._noted) - 1, 0, features)

    def width(self, call: int) -> int:
        """The number of features of a call's result, or of the input."""
        return self._input if call == INPUT else self._noted[call].features

    def __call__(
        self, x: Float[Tensor, "rows in_features"] | Int64[Tensor, " rows"], seen: AttentionInputs
    ) -> Float[Tensor, "rows features"]:
        """Run the plan.

        Raises:
            IndexError: an id has no embedding.
        """
        prepared = self.prepared(x.contiguous(), seen)
        if self._run(*self.calls, ctypes.addressof(prepared.run)):
            refuse_ids()
        return prepared.out

    @property
    def calls(self) -> tuple["ctypes.Array[Call]", int]:
        """The recorded calls, and their number."""
        return self._calls, len(self._calls)

    def prepared(
        self,
        x: Float[Tensor, "rows in_features"] | Int64[Tensor, " rows"],
        seen: AttentionInputs,
        levels: int = 0,
    ) -> "PreparedRun":
        """A run of the plan; `levels`: bytes of a row's quantised inputs that other kernels need."""
        rows, own = x.size(0), int((seen.positions - seen.begins).max()) + 1
        longest = max(own, seen.longest)
        out, buffer = torch.empty(rows, self.features), torch.empty(rows * self.buffer)
        threads, width = torch.get_num_threads(), max(self._levels, levels)
        scores = torch.empty(threads, self._heads, longest + constant("panel_width"))
        quantised = torch.empty(rows * (width + SCALE), dtype=torch.uint8)
        keys, values = map(_table, (seen.keys, seen.values))
        memory_keys, memory_values = (_table([pair[part] for pair in seen.memory]) for part in (0, 1))
        run = Run(
            *map(_address, (x, out, buffer, scores, quantised)), quantised.data_ptr() + rows * width,
            *map(_address, (seen.positional, seen.rotary)), *map(ctypes.addressof, (keys, values)),
            *map(_address, (seen.table, seen.slots, seen.begins, seen.positions)),
            *map(ctypes.addressof, (memory_keys, memory_values)), *map(_address, (seen.starts, seen.lengths)),
            rows, seen.table.stride(0), own, seen.longest, threads,
        )  # fmt: skip
        memory = (x, seen, buffer, scores, quantised, keys, values, memory_keys, memory_values)
        return PreparedRun(run, out, memory)


def refuse_ids() -> NoReturn:
    raise IndexError("an id has no embedding")


def add(x: Rows, y: Rows) -> Rows:
    """x + y."""
    if isinstance(x, PlannedResult):
        assert isinstance(y, PlannedResult)
        return x.plan.record(ADD, x, y, features=x.features)  # pyright: ignore[reportReturnType]
    return x + y


def allocated(noted: Sequence[PlannedCall], input_features: int) -> tuple[ctypes.Array[Call], int]:
    """The calls with offsets in a buffer, and its floats per row; the memory of unused results is reused."""
    last_read = {
        given.call: number for number, each in enumerate(noted) for given in each.inputs if given is not None
    }
    offsets: dict[int, int] = {}
    calls, size = (Call * len(noted))(), 0
    for number, each in enumerate(noted):
        held = sorted(
            (offsets[call], noted[call].features) for call in offsets if last_read.get(call, call) >= number
        )
        is_last = number == len(noted) - 1
        offsets[number] = OUTPUT if is_last else _gap(held, each.features)
        size = size if is_last else max(size, offsets[number] + each.features)
        inputs = [_operand(given, offsets, noted, input_features) for given in each.inputs]
        inputs += [Operand(NO_OPERAND)] * (3 - len(inputs))
        result = Operand(offsets[number], each.features, 0)
        calls[number] = Call(*inputs, result, kind=each.kind, features=each.features, **each.details)
    return calls, size


def _gap(held: Sequence[tuple[int, int]], features: int) -> int:
    """The first free offset with room for `features` features between those in use."""
    offset = 0
    for start, width in held:
        if start - offset >= features:
            break
        offset = max(offset, start + width)
    return offset


def _operand(
    given: PlannedResult | None, offsets: dict[int, int], noted: Sequence[PlannedCall], input_features: int
) -> Operand:
    if given is None:
        return Operand(NO_OPERAND)
    if given.call == INPUT:
        return Operand(INPUT, input_features, given.column)
    return Operand(offsets[given.call], noted[given.call].features, given.column)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _table(tensors: Sequence[Tensor]) -> "ctypes.Array[ctypes.c_void_p]":
    """The addresses of tensors."""
    return (ctypes.c_void_p * len(tensors))(*(each.data_ptr() for each in tensors))
