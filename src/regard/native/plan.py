"""A plan: kernels that follow one another, written down once and run by one call (plan.c).

It is written by calling them with what is not there yet (`Planned`) in the place of rows.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from regard.native.kernels import constant, kernel

EMBED, LINEAR, NORM, ACTIVATE, ROTATE, TO_SELF, TO_MEMORY = range(7)  # as plan.c has them, and so
NOTHING, ENTERING, LEAVING = -1, -2, -3  # these
SCALE = 4  # bytes


Rows = Any  # Float[Tensor, "rows features"], or what will be that


class Unplanned(Exception):
    """Of what is not there yet something is asked that no kernel computes."""


class Planned:
    """The columns from `column` on of what a call will give: rows of so many features."""

    def __init__(self, plan: "Plan", call: int, column: int, features: int) -> None:
        self.plan, self.call, self.column, self.features = plan, call, column, features

    def __getitem__(self, place: tuple[slice, slice | None]) -> "Planned":
        rows, columns = place
        if rows != slice(None) or columns is None or columns.step is not None:
            raise Unplanned
        first, last, _step = columns.indices(self.features)
        return Planned(self.plan, self.call, self.column + first, last - first)

    def __getattr__(self, name: str) -> Any:
        raise Unplanned(name)

    @classmethod
    def __torch_function__(cls, function: Any, *_given: Any) -> Any:
        raise Unplanned(function)


@dataclass(frozen=True)
class Seen:
    """What attention looks at (attention.py), layer by layer, and what tells the position."""

    position: int
    keys: Sequence[Float[Tensor, "capacity seats features"]]
    values: Sequence[Float[Tensor, "capacity seats features"]]
    table: Int32[Tensor, "rows capacity"]
    memory: Sequence[tuple[Float[Tensor, "positions width"], Float[Tensor, "positions width"]]] = ()
    starts: Int64[Tensor, " rows"] | None = None
    lengths: Int64[Tensor, " rows"] | None = None
    longest: int = 0
    plus: Float[Tensor, "1 d_model"] | None = None  # to embeddings
    turns: tuple[Float[Tensor, "1 d_head"], Float[Tensor, "1 d_head"]] | None = None  # sines and cosines


class Slot(ctypes.Structure):
    """As plan.c has it, and so the next two."""

    _fields_ = [(name, ctypes.c_long) for name in ("place", "width", "column")]


class Call(ctypes.Structure):
    _fields_ = [
        *[(name, Slot) for name in ("x", "y", "z", "out")],
        *[(name, ctypes.c_long) for name in ("kind", "features", "heads", "groups", "layer")],
        *[(name, ctypes.c_void_p) for name in ("weights", "bias")],
        *[("number", ctypes.c_float), ("flag", ctypes.c_int)],
    ]


class Run(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_void_p) for name in (
            "entering", "leaving", "room", "scores", "levels", "level_scales", "plus", "sine", "cosine",
            "keys", "values", "table", "memory_keys", "memory_values", "starts", "lengths",
        )],
        *[(name, ctypes.c_long) for name in (
            "rows", "seats", "table_row", "position", "longest", "threads",
        )],
    ]  # fmt: skip


@dataclass(frozen=True)
class Noted:
    """A call as it was asked for."""

    inputs: Sequence[Planned | None]
    features: int  # of what it gives
    details: dict[str, Any]


class Plan:
    """What `path` does with rows of so many features, in one call."""

    def __init__(self, features: int, path: Callable[[Planned], Planned]) -> None:
        """`path` is called once, with what is not there yet: rows of so many features, or ids (1).

        Raises:
            Unplanned: there is more in it than kernels.
        """
        self._noted: list[Noted] = []
        self._entering = features
        self._kept: list[Any] = []  # whose memory is read
        self._levels = 0  # that int8 makes of a row, at most
        self._heads = 0  # of an attention, at most
        try:
            last = path(Planned(self, ENTERING, 0, features))
        except TypeError as error:  # an operator that what is planned has not
            raise Unplanned from error
        if not self._noted or last.call != len(self._noted) - 1 or last.features != self._noted[-1].features:
            raise Unplanned
        self.features = last.features
        self._calls, self.room = placed(self._noted, features)
        self._run = kernel("run_plan")

    @property
    def linears(self) -> list[Any]:
        """The linear maps, in their order."""
        return [
            kept for kept, each in zip(self._kept, self._noted, strict=True) if each.details["kind"] == LINEAR
        ]

    def note(
        self,
        kind: int,
        *inputs: Any,
        features: int,
        kept: Any = None,
        levels: int = 0,
        **details: Any,
    ) -> Planned:
        """One more call, which reads what is planned or nothing, and what `kept` holds: what it will give.

        Raises:
            Unplanned: it reads whole rows, and these are parts.
        """
        if kind in (LINEAR, NORM) and not all(map(self._is_whole, inputs)):
            raise Unplanned
        self._noted.append(Noted(inputs, features, {"kind": kind, "features": features, **details}))
        self._kept.append(kept)
        self._levels = max(self._levels, levels)
        if kind in (TO_SELF, TO_MEMORY):
            self._heads = max(self._heads, details["heads"])
        return Planned(self, len(self._noted) - 1, 0, features)

    def _is_whole(self, given: Planned | None) -> bool:
        if given is None:
            return True
        features = self._entering if given.call == ENTERING else self._noted[given.call].features
        return (given.column, given.features) == (0, features)

    def __call__(
        self, x: Float[Tensor, "rows in_features"] | Int64[Tensor, " rows"], seen: Seen
    ) -> Float[Tensor, "rows features"]:
        """Raises:
        IndexError: an id has no embedding.
        """
        rows, longest = x.size(0), max(seen.position + 1, seen.longest)
        out, room = torch.empty(rows, self.features), torch.empty(rows * self.room)
        threads = torch.get_num_threads()
        scores = torch.empty(threads, self._heads, longest + constant("panel_width"))
        levels = torch.empty(rows * (self._levels + SCALE), dtype=torch.uint8)
        x = x.contiguous()
        keys, values = map(_table, (seen.keys, seen.values))
        memory_keys, memory_values = (_table([pair[part] for pair in seen.memory]) for part in (0, 1))
        sine, cosine = (None, None) if seen.turns is None else seen.turns
        run = Run(
            *map(_address, (x, out, room, scores, levels)), levels.data_ptr() + rows * self._levels,
            *map(_address, (seen.plus, sine, cosine)), *map(ctypes.addressof, (keys, values)),
            seen.table.data_ptr(),
            *map(ctypes.addressof, (memory_keys, memory_values)), *map(_address, (seen.starts, seen.lengths)),
            rows, seen.keys[0].size(1), seen.table.stride(0), seen.position, seen.longest,
            threads,
        )  # fmt: skip
        if self._run(self._calls, len(self._calls), ctypes.addressof(run)):
            refuse_ids()
        return out


def refuse_ids() -> NoReturn:
    raise IndexError("an id has no embedding")


def placed(noted: Sequence[Noted], entering: int) -> tuple[ctypes.Array[Call], int]:
    """The calls, and how many floats a row they need; what nobody will read any more is written over."""
    last_read = {
        given.call: number for number, each in enumerate(noted) for given in each.inputs if given is not None
    }
    places: dict[int, int] = {}
    calls, room = (Call * len(noted))(), 0
    for number, each in enumerate(noted):
        held = sorted(
            (places[call], noted[call].features) for call in places if last_read.get(call, call) >= number
        )
        leaves = number == len(noted) - 1
        places[number] = LEAVING if leaves else _gap(held, each.features)
        room = room if leaves else max(room, places[number] + each.features)
        inputs = [_slot(given, places, noted, entering) for given in each.inputs]
        inputs += [Slot(NOTHING)] * (3 - len(inputs))
        calls[number] = Call(*inputs, Slot(places[number], each.features, 0), **each.details)
    return calls, room


def _gap(held: Sequence[tuple[int, int]], features: int) -> int:
    """The first place where so many fit between those that are held."""
    place = 0
    for start, width in held:
        if start - place >= features:
            break
        place = max(place, start + width)
    return place


def _slot(given: Planned | None, places: dict[int, int], noted: Sequence[Noted], entering: int) -> Slot:
    if given is None:
        return Slot(NOTHING)
    if given.call == ENTERING:
        return Slot(ENTERING, entering, given.column)
    return Slot(places[given.call], noted[given.call].features, given.column)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _table(tensors: Sequence[Tensor]) -> "ctypes.Array[ctypes.c_void_p]":
    """Where each of them is."""
    return (ctypes.c_void_p * len(tensors))(*(each.data_ptr() for each in tensors))
