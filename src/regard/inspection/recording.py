"""Recorded tensors of a model's modules: call by call, and assembled over the steps of decoding.

In decoding with a cache, each call of a decoder's self-attention has one or a few queries and the keys of
all positions so far; assembled, they form the lower triangle that a full pass gives. A beam search reorders
rows of the batch between calls. It reports this with `select_rows`, and a row is traced back to the rows
that it came from (see recorded_stepper.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from regard.errors import ConfigError
from regard.layers.scaled_dot_product import attention_weights

OTHER_PARTS = "record other parts: query, key, value, mask, bias, head_output"  # of a kernel without weights
Recorded = Literal["query", "key", "value", "mask", "bias", "scores", "weights", "head_output"]


class RowPosition(NamedTuple):
    """A row of the batch at some time of decoding, counted in `Recording.events`."""

    row: int
    time: int


@dataclass(frozen=True)
class ModuleCall:
    """The parts recorded in one call of a module; `time` as in `RowPosition`.

    Parts have the shape [batch, heads, rows, columns or features]; the first three sizes of a mask or bias
    may be 1. Parts that were not requested, or that the call did not have, are absent.
    """

    time: int
    rows: int
    columns: int
    parts: dict[str, Tensor]
    pass_number: int  # steps with one cache are of one pass


@dataclass
class Recording:
    """The recorded parts of modules, by module name.

    `query(name)` and the other methods give one row of the batch, by default the first; a `RowPosition`
    names a row of a beam search; `row=None` gives all rows, with a batch axis in front. Keys and values that
    query heads share are repeated for each head. Calls that continue a cache are joined; other calls are not,
    and `calls_by_module` has each of them. What is recorded has no gradient.

    Raises:
        ConfigError: this part was not recorded under this name, or in several passes.
    """

    heads: dict[str, tuple[int, ...]] = field(default_factory=dict)  # recorded heads of each attention
    parts: tuple[Recorded, ...] = (
        "weights",
    )  # recorded of each attention that `parts_by_name` does not name
    parts_by_name: dict[str, tuple[Recorded, ...]] = field(default_factory=dict)  # of single attentions
    self_attentions: frozenset[str] = frozenset()  # names; their columns grow with their rows
    softcaps: dict[str, float] = field(default_factory=dict)  # of attentions with soft-capped scores
    own_kernels: frozenset[str] = frozenset()  # attentions whose kernel is not one of regard's
    no_weights: dict[str, str] = field(default_factory=dict)  # attentions without weights, and why
    calls_by_module: dict[str, list[ModuleCall]] = field(default_factory=dict)  # of attentions
    outputs_by_module: dict[str, list[ModuleCall]] = field(default_factory=dict)  # and "logits"
    events: list[Int64[Tensor, " rows"] | None] = field(default_factory=list)  # selected rows; None: a step
    bytes_held: int = 0

    def parts_of(self, name: str) -> tuple[Recorded, ...]:
        """The recorded parts of the attention `name`."""
        return self.parts_by_name.get(name, self.parts)

    # Attentions: [heads, rows, ...]; with `row=None`, [batch, heads, rows, ...]

    def weights(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch heads rows columns"]:
        """The attention weights before dropout; 0 where a row had not yet the column in its cache.

        If weights were not recorded, they are computed from queries, keys, mask and bias; not those of
        `own_kernels`, which must be recorded. An attention in `no_weights` has none.
        """
        if name in self.no_weights:
            raise ConfigError(f"{name} has no weights: {self.no_weights[name]}", OTHER_PARTS)
        parts = self.parts_of(name)
        has_inputs = {"query", "key", "mask", "bias"} <= {*parts} and name not in self.own_kernels
        if "weights" not in parts and has_inputs:
            return self._computed_weights(name, row)
        return self._assembled(name, "weights", row, 0.0)

    def scores(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch heads rows columns"]:
        """The attention scores with bias, before mask and softmax; -inf for columns not yet in the cache."""
        return self._assembled(name, "scores", row, -torch.inf)

    def mask(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Bool[Tensor, "*batch some_heads rows columns"]:
        """The mask: True where a row may attend; one head if it is the same for all."""
        return self._assembled(name, "mask", row, False)

    def bias(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch some_heads rows columns"] | None:
        """The position bias of the scores, with one head if it is the same for all; None without one."""
        if not any("bias" in call.parts for call in self._calls(name, "bias")):
            return None
        return self._assembled(name, "bias", row, 0.0)

    def query(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch heads rows d_head"]:
        """The queries as the kernel received them: normalised, rotated and scaled."""
        return self._concatenated(name, "query", row)

    def key(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch heads columns d_head"]:
        """The keys as the kernel received them: query . key / sqrt(d_head) + bias is the score.

        If the attention is in `softcaps`, query . key / sqrt(d_head) is soft-capped before the bias.
        """
        return self._of_columns(name, "key", row)

    def value(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch heads columns d_value"]:
        """The values."""
        return self._of_columns(name, "value", row)

    def head_output(
        self, name: str, row: int | RowPosition | None = 0
    ) -> Float[Tensor, "*batch heads rows d_value"]:
        """The output of each head, before the output projection (in training, after dropout)."""
        return self._concatenated(name, "head_output", row)

    # Other modules

    def hidden(self, name: str, row: int | RowPosition | None = 0) -> Float[Tensor, "*batch len width"]:
        """The output of the block `name`."""
        found = self._concatenated(name, "hidden", row)
        return found.squeeze(-3)

    def logits(self, row: int | RowPosition | None = 0) -> Tensor:
        """The model's output: logits of each position, or whatever its head gives for a text."""
        found = self._concatenated("logits", "hidden", row)
        return found.squeeze(-3)

    # Call by call, whole batches

    @property
    def weights_by_call(self) -> dict[str, list[Tensor]]:
        """The weights of each attention, one tensor [batch, heads, rows, columns] for each call."""
        return {
            name: [call.parts["weights"] for call in self.calls_by_module[name]]
            for name in self.heads
            if name not in self.no_weights
        }

    def last_weights(self, name: str) -> Float[Tensor, "batch heads rows columns"]:
        """The weights of the attention `name` in its last call."""
        return self._calls(name, "weights")[-1].parts["weights"]

    def clear(self) -> None:
        """Delete everything recorded so far."""
        for calls in (*self.calls_by_module.values(), *self.outputs_by_module.values()):
            calls.clear()
        self.events.clear()
        self.bytes_held = 0

    # Events between calls

    def select_rows(self, rows: Int64[Tensor, " rows"]) -> None:
        """Note that row i of the batch is now what row `rows[i]` was."""
        self.events.append(rows.detach().cpu().clone())

    def begin_step(self) -> int:
        """Note that a step begins; its time."""
        self.events.append(None)
        return len(self.events)

    def rows_at(self, rows: Int64[Tensor, " rows"], later: int, earlier: int) -> Int64[Tensor, " rows"]:
        """The rows at time `earlier` of the hypotheses that are in `rows` at time `later`."""
        for event in reversed(self.events[earlier:later]):
            rows = rows if event is None else event[rows]
        return rows

    def _computed_weights(self, name: str, row: int | RowPosition | None) -> Tensor:
        query, key, mask = self.query(name, row), self.key(name, row), self.mask(name, row)
        bias, softcap = self.bias(name, row), self.softcaps.get(name)
        if row is None:
            return attention_weights(query, key, mask, bias, softcap)
        bias = None if bias is None else bias[None]
        return attention_weights(query[None], key[None], mask[None], bias, softcap)[0]

    def _calls(self, name: str, part: str) -> list[ModuleCall]:
        known = self.outputs_by_module if part == "hidden" else self.calls_by_module
        other = self.calls_by_module if part == "hidden" else self.outputs_by_module
        if name not in known and name not in other:
            recorded = ", ".join(dict.fromkeys((*known, *other))) or "nothing"
            raise ConfigError(f"nothing is recorded under {name!r}", f"recorded: {recorded}")
        calls = known.get(name) or other.get(name) or []
        if not calls:
            raise ConfigError(
                f"{name} was not called while it was recorded",
                "run the model inside the `with`, in the same thread",
            )
        recorded = calls[0].parts.keys() | (
            {"mask", "bias"} & {*self.parts_of(name)} if calls is self.calls_by_module.get(name) else set()
        )
        if part not in recorded:  # a call may have no mask or bias
            raise ConfigError(f"no {part} of {name} is recorded", f"recorded: {', '.join(sorted(recorded))}")
        return calls

    def _calls_for_row(
        self, name: str, part: str, row: int | RowPosition | None
    ) -> list[tuple[ModuleCall, Int64[Tensor, " rows"]]]:
        """The calls that contributed to `row`, with its rows at each call."""
        calls = self._calls(name, part)
        if row is None:
            time = calls[-1].time
            rows = torch.arange(max(each.size(0) for each in calls[-1].parts.values()))
        else:
            position = row if isinstance(row, RowPosition) else RowPosition(row, len(self.events))
            self._refuse_other_row(position, calls)
            rows, time = torch.tensor([position.row]), position.time
        calls = [call for call in calls if call.time <= time]
        _refuse_several_passes(name, calls)
        return [(call, self.rows_at(rows, time, call.time)) for call in calls]

    def _refuse_other_row(self, position: RowPosition, calls: Sequence[ModuleCall]) -> None:
        """Raise a ConfigError for a row that the batch did not have; masks alone do not show how many."""
        selected = [event for event in self.events[: position.time] if event is not None]
        parts = {name: part for call in calls for name, part in call.parts.items()}
        sizes = [part.size(0) for name, part in parts.items() if name not in ("mask", "bias")]
        count = len(selected[-1]) if selected else max(sizes, default=None)
        if position.row < 0 or (count is not None and position.row >= count):
            raise ConfigError(
                f"the recorded batch has no row {position.row}",
                f"it has {count} rows" if count else "rows are counted from 0",
            )

    def _concatenated(self, name: str, part: str, row: int | RowPosition | None) -> Tensor:
        """A part of all calls, concatenated: [heads, all rows, features]."""
        found = [_select_rows(call.parts[part], rows) for call, rows in self._calls_for_row(name, part, row)]
        return _first_if_single(torch.cat(found, dim=2), row)

    def _of_columns(self, name: str, part: str, row: int | RowPosition | None) -> Tensor:
        """Keys or values: [heads, all columns, features]; those of a memory are the same in all calls."""
        if name in self.self_attentions:
            return self._concatenated(name, part, row)
        *_, (call, rows) = self._calls_for_row(name, part, row)
        return _first_if_single(_select_rows(call.parts[part], rows), row)

    def _assembled(self, name: str, part: str, row: int | RowPosition | None, fill: float | bool) -> Tensor:
        """A part of all calls, stacked by rows at the right columns: [heads, all rows, all columns]."""
        calls = self._calls_for_row(name, part, row)
        is_square = name in self.self_attentions
        height = sum(call.rows for call, _ in calls)
        width = height if is_square else max(call.columns for call, _ in calls)
        found, end_row = [], 0
        for call, rows in calls:
            end_row += call.rows
            first_column = end_row - call.columns if is_square else 0
            block = _expand(call, part, rows)
            padded = block.new_full((*block.shape[:-1], width), fill)
            padded[..., first_column : first_column + call.columns] = block
            found.append(padded)
        return _first_if_single(torch.cat(_with_equal_heads(found), dim=2), row)


def _refuse_several_passes(name: str, calls: Sequence[ModuleCall]) -> None:
    """Raise a ConfigError for calls that are not one pass, whole or step by step with a cache."""
    count = len({call.pass_number for call in calls})
    if count > 1:
        raise ConfigError(
            f"{count} passes of {name} were recorded, which do not continue each other",
            "call clear() between passes, or record each in its own `with`; calls_by_module and"
            " outputs_by_module have each call",
        )


def _select_rows(tensor: Tensor, rows: Int64[Tensor, " rows"]) -> Tensor:
    """These rows of the batch; a batch of one is expanded."""
    if tensor.size(0) == 1:
        return tensor.expand(len(rows), *tensor.shape[1:])
    return tensor[rows.to(tensor.device)]


def _expand(call: ModuleCall, part: str, rows: Int64[Tensor, " rows"]) -> Tensor:
    """A part for all rows of a call; without a mask everything is visible, without a bias it is 0."""
    found = call.parts.get(part)
    if found is None:
        device = next(iter(call.parts.values())).device if call.parts else None
        found = torch.ones(1, 1, 1, call.columns, dtype=torch.bool, device=device)
        found = found if part == "mask" else torch.zeros_like(found, dtype=torch.get_default_dtype())
    return _select_rows(found, rows).expand(-1, -1, call.rows, -1)


def _with_equal_heads(blocks: Sequence[Tensor]) -> list[Tensor]:
    """The blocks, each expanded to the greatest number of heads."""
    heads = max(block.size(1) for block in blocks)
    return [block.expand(-1, heads, -1, -1) for block in blocks]


def _first_if_single(found: Tensor, row: int | RowPosition | None) -> Tensor:
    return found if row is None else found[0]
